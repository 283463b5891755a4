/*
 * xsoftmax: the library on the command line. Each command is in a file of its own in cli/; the manual page is
 * xsoftmax.1.
 */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
