/*
 * xsoftmax: the library on the command line. Each command is in a file of its own in cli/; the manual page is
 * xsoftmax.1.
 */
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As one of several ranks it becomes xsoftmax-mpi, of the same folder: this program is not linked with an MPI. */
static int start_mpi(char **argv, uint32_t ranks, uint32_t rank)
{
    const char *slash = strrchr(argv[0], '/');
    char *name = cli_format("%.*sxsoftmax-mpi", slash ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
    if (slash) {
        execv(name, argv);
    } else {
        execvp(name, argv);
    }
    free(name);
    return rank > 0
               ? CLI_USAGE
               : cli_misuse("mpirun started %u ranks, and there is no xsoftmax-mpi%s; it is built where there is an "
                            "MPI (-Dmpi=enabled)",
                            ranks, slash ? " beside this command" : "");
}

int main(int argc, char **argv)
{
    uint32_t ranks, rank;
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes then fails with a message */
#endif
    if (argc > 0 && cli_started(&ranks, &rank) && ranks > 1) {
        return start_mpi(argv, ranks, rank);
    }
    return cli_main(argc, argv);
}
