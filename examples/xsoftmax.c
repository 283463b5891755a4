/*
 * xsoftmax: the library on the command line. Each command is in a file of its own in cli/; the manual page is
 * xsoftmax.1.
 */
#include "cli/cli.h"

#include <signal.h>

int main(int argc, char **argv)
{
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes then fails with a message */
#endif
    return cli_main(argc, argv);
}
