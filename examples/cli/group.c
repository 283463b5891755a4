/*
 * Ranks: the command as one of several processes that divide a model (xsoftmax_mpi.c). Rank 0 prints and writes; what
 * others have to say is kept. Where a rank does something alone (reads its rows, makes a file), all agree afterwards
 * whether it went well on each, so that none waits for one that has given up.
 */
#include "cli.h"
#include "same_arguments.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/comm.h>

const xsm_comm *cli_group;
uint32_t cli_group_threads;

/* The message of this rank, if it does not print. */
static char held[512];

int cli_leads(void)
{
    return !cli_group || cli_group->rank == 0;
}

FILE *cli_messages(void)
{
    static FILE *nowhere;
    if (cli_leads()) {
        return stderr;
    }
    nowhere = nowhere ? nowhere : fopen("/dev/null", "we");
    return nowhere ? nowhere : stderr;
}

void cli_hold(const char *message)
{
    if (!held[0]) {
        snprintf(held, sizeof held, "%s", message);
    }
}

const char *cli_held(void)
{
    return held;
}

static int lost(int code)
{
    const int failed = cli_fail("rank %u: the other ranks cannot be reached any more", cli_group->rank);
    return code == CLI_GO_ON ? failed : code;
}

/* Whether an agreement has ended the command, as every rank knows: none waits for another one. */
static int ended;

int cli_agree(int code)
{
    struct {
        int32_t code;
        char message[sizeof held];
    } report = {code, ""};
    if (!cli_group || ended) {
        return code == CLI_GO_ON && ended ? CLI_FAILED : code;
    }
    float failed =
        code == CLI_GO_ON ? 0 : (float)(cli_group->ranks - cli_group->rank); /* the first rank's is largest */
    if (cli_group->max_f32(cli_group->user, &failed, 1) != 0) {
        return lost(code);
    }
    if (failed == 0) {
        return code;
    }
    ended = 1;
    const uint32_t first = cli_group->ranks - (uint32_t)failed;
    memcpy(report.message, held, sizeof held);
    if (cli_group->broadcast(cli_group->user, &report, sizeof report, first) != 0) {
        return lost(code);
    }
    if (first > 0 && cli_leads()) {
        cli_fail("rank %u: %s", first, report.message);
    }
    return report.code;
}

int cli_agree_any(int flag)
{
    float any = flag != 0;
    if (cli_group && !ended && cli_group->max_f32(cli_group->user, &any, 1) != 0) {
        return 1;
    }
    return any != 0;
}

int cli_share(void *data, size_t bytes)
{
    return ended                                                                      ? CLI_FAILED
           : !cli_group || cli_group->broadcast(cli_group->user, data, bytes, 0) == 0 ? CLI_GO_ON
                                                                                      : lost(CLI_GO_ON);
}

int cli_compare_arguments(int argc, char **argv)
{
    static const char *const own[] = {"--threads", NULL}; /* it depends on the machine */
    const arguments given = {argc, argv, own};
    char message[sizeof held];
    if (!cli_group) {
        return CLI_GO_ON;
    }
    switch (same_arguments(cli_group, &given, message, sizeof message)) {
    case ARGUMENTS_SAME:
        return cli_agree(CLI_GO_ON);
    case ARGUMENTS_UNLIKE:
        return cli_agree(cli_misuse("%s", message));
    case ARGUMENTS_NO_MEMORY:
        return cli_fail("%s", message);
    default:
        return lost(CLI_GO_ON);
    }
}

int cli_started(uint32_t *ranks, uint32_t *rank)
{
    /* Open MPI; MPICH, Intel MPI and others that have Hydra. */
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *size = getenv(names[i][0]), *number = getenv(names[i][1]);
        if (size && number) {
            *ranks = (uint32_t)strtoul(size, NULL, 10);
            *rank = (uint32_t)strtoul(number, NULL, 10);
            return 1;
        }
    }
    return 0;
}
