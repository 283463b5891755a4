/*
 * The program behind bench/papers/run.sh: papers NAME... [--json] [--quick] [--threads N] [--folder FOLDER], for
 * figures with several sets of data [--sets NAME,...], and for figures that race [--only METHOD,...]
 * [--budget SECONDS] [--scale N] [--processor]. Without --threads there is one. See doc/measurements/papers.md.
 */
#include "papers.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const figure figures[] = {
    {"ove_toy", "Titsias 2016, Figure 1: softmax, one-vs-each and Bouchard's bound on 200 points", figure_ove_toy, 0},
    {"ove_nonparametric", "Titsias 2016, Figure 2: probabilities of 10,000 values by doubly stochastic OVE",
     figure_ove_nonparametric, 0},
    {"ove_table2", "Titsias 2016, Table 2: the bounds' optima on MNIST, 20NEWS, BIBTEX", figure_ove_table2, 0},
    {"ove_alpha", "Titsias 2016, Table 2: BOUCHARD's distance from SOFT on MNIST by how alpha moves", figure_ove_alpha,
     0},
    {"ove_amazoncat", "Titsias 2016, section 4.2: OVE-SGD on data of AmazonCat-13K's shape", figure_ove_amazoncat, 0},
    {"umax_table3", "Fagan and Iyengar 2018, Table 3 and Figure 1: methods after 50 epochs, honestly evaluated",
     figure_umax_table3, 0},
    {"umax_rates", "Fagan and Iyengar 2018, Figure 3: log-loss against the learning rate", figure_umax_rates, 0},
    {"umax_start", "Fagan and Iyengar 2018, Figure 2: both double sums, from both starts of u", figure_umax_start, 0},
    {"ldgs_steps", "Yen et al. 2018, Figure 1: what a step costs at 672 thousand classes", figure_ldgs_steps, 0},
    {"ldgs_equal_time", "Yen et al. 2018, Figure 1: accuracy against time at 672 thousand classes",
     figure_ldgs_equal_time, RACES | SCALES},
    {"ldgs_retrieval", "Yen et al. 2018, section 4: classes retrieved until a bound on Z says stop, on real sets",
     figure_ldgs_retrieval, RACES | HAS_SETS},
    {"ldgs_multiclass", "Yen et al. 2018, Figure 1 on faces of that form: accuracy by epoch and by time",
     figure_ldgs_multiclass, 0},
    {"ldgs_multilabel", "Yen et al. 2018, Figure 2: documents with several labels, by epoch and by time",
     figure_ldgs_multilabel, HAS_SETS},
    {"umax_optimum", "how far from the exact optimum the methods end with rates that fall as 1/t", figure_umax_optimum,
     0},
    {"adversarial_eurlex", "Bamler and Mandt 2020, appendix A.2: the exact softmax against negative sampling",
     figure_adversarial_eurlex, 0},
    {"adversarial_penalty", "Bamler and Mandt 2020, eq. 6: the penalty lambda, with the tree and NCE",
     figure_adversarial_penalty, 0},
    {"adversarial_curves", "Bamler and Mandt 2020, Figure 1: test accuracy and log-likelihood against time",
     figure_adversarial_curves, RACES | SCALES | HAS_SETS},
    {"ldgs_words", "Yen et al. 2018, Figure 3 in shape: the collapsed skip-gram objective by epoch and time",
     figure_ldgs_words, 0},
    {"estimators_time", "which estimator: log-loss on test rows against training time, five real sets",
     figure_estimators_time, RACES | HAS_SETS},
};
enum { FIGURES = sizeof figures / sizeof figures[0], THREADS_MAX = 256 };

typedef struct arguments {
    papers settings;
    bool wanted[FIGURES];
    uint32_t threads;
} arguments;

static void list(FILE *to)
{
    for (size_t i = 0; i < FIGURES; i++) {
        fprintf(to, "  %-18s %s\n", figures[i].name, figures[i].summary);
    }
    fprintf(to, "  %-18s %s\n", "all", "each of them");
}

/* "A, B and C": the figures that take such options. */
static void print_takers(FILE *to, unsigned options)
{
    size_t count = 0, printed = 0;
    for (size_t i = 0; i < FIGURES; i++) {
        count += (figures[i].takes & options) != 0;
    }
    for (size_t i = 0; i < FIGURES; i++) {
        if (figures[i].takes & options) {
            const char *before = printed == 0 ? "" : printed + 1 < count ? ", " : " and ";
            fprintf(to, "%s%s", before, figures[i].name);
            printed++;
        }
    }
}

static _Noreturn void usage(const char *what, const char *which)
{
    fprintf(stderr, "papers: %s '%s'; there are --json, --quick, --threads N, --folder FOLDER, --list, for ", what,
            which);
    print_takers(stderr, HAS_SETS);
    fputs(" --sets NAME,..., for ", stderr);
    print_takers(stderr, RACES);
    fputs(" --only METHOD,..., --budget SECONDS, --processor, for ", stderr);
    print_takers(stderr, SCALES);
    fputs(" --scale N, and\n", stderr);
    list(stderr);
    exit(2);
}

static bool want(arguments *a, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < FIGURES; i++) {
        if (strcmp(name, "all") == 0 || strcmp(name, figures[i].name) == 0) {
            a->wanted[i] = found = true;
        }
    }
    return found;
}

static uint32_t read_threads(const char *text)
{
    char *end;
    errno = 0;
    long threads = strtol(text, &end, 10);
    if (end == text || *end || errno || threads < 1 || threads > THREADS_MAX) {
        usage("--threads takes a number from 1 to 256, not", text);
    }
    return (uint32_t)threads;
}

/* A number above 0, up to `most`. */
static double read_number(const char *what, const char *text, double most)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number > 0 && number <= most)) {
        usage(what, text);
    }
    return number;
}

/* Options are for the figures that take them, of which there must be one; NULL: none is given. */
static void check_taken(const arguments *a, unsigned kind, const char *given)
{
    unsigned taken = 0;
    for (size_t i = 0; i < FIGURES; i++) {
        taken |= a->wanted[i] ? figures[i].takes : 0;
    }
    if (given && !(taken & kind)) {
        usage("no figure that is named takes", given);
    }
}

/* Ends the program with status 2 for a usage error, and after --list. */
static arguments read_arguments(int argc, char **argv)
{
    arguments a = {{.folder = "."}, {false}, 1};
    const char *racing = NULL, *scaling = NULL, *choosing = NULL;
    bool some = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--json") == 0) {
            a.settings.json = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            a.settings.quick = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            list(stdout);
            exit(0);
        } else if (strcmp(argv[i], "--threads") == 0) {
            a.threads = read_threads(value);
            i++;
        } else if (strcmp(argv[i], "--folder") == 0) {
            if (!*value) {
                usage("--folder takes a folder, not", value);
            }
            a.settings.folder = value;
            i++;
        } else if (strcmp(argv[i], "--only") == 0) {
            if (!*value) {
                usage("--only takes methods, not", value);
            }
            a.settings.only = value;
            racing = argv[i++];
        } else if (strcmp(argv[i], "--sets") == 0) {
            if (!*value) {
                usage("--sets takes names of data sets, not", value);
            }
            a.settings.sets = value;
            choosing = argv[i++];
        } else if (strcmp(argv[i], "--processor") == 0) {
            a.settings.processor = true;
            racing = argv[i];
        } else if (strcmp(argv[i], "--budget") == 0) {
            a.settings.budget = read_number("--budget takes seconds above 0, not", value, 1e6);
            racing = argv[i++];
        } else if (strcmp(argv[i], "--scale") == 0) {
            double scale = read_number("--scale takes a whole number from 1 to 1000, not", value, 1000);
            a.settings.scale = (uint32_t)scale;
            if (a.settings.scale < scale) {
                usage("--scale takes a whole number from 1 to 1000, not", value);
            }
            scaling = argv[i++];
        } else if (argv[i][0] == '-') {
            usage("no option", argv[i]);
        } else if (want(&a, argv[i])) {
            some = true;
        } else {
            usage("no figure", argv[i]);
        }
    }
    if (!some) {
        list(stdout);
        exit(0);
    }
    a.settings.processor |= a.threads == 1;
    check_taken(&a, RACES, racing);
    check_taken(&a, SCALES, scaling);
    check_taken(&a, HAS_SETS, choosing);
    return a;
}

int main(int argc, char **argv)
{
    arguments a = read_arguments(argc, argv);
    if (mkdir(a.settings.folder, 0777) != 0 && errno != EEXIST) {
        papers_fail("no folder %s: %s", a.settings.folder, strerror(errno));
    }
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    options.threads = a.threads;
    papers_check(xsm_context_new(&options, &a.settings.context, &err), &err);
    for (size_t i = 0; i < FIGURES; i++) {
        if (a.wanted[i]) {
            figures[i].run(&a.settings);
        }
    }
    xsm_context_free(a.settings.context);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        papers_fail("standard output: %s", strerror(errno));
    }
    return 0;
}
