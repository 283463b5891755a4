/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, Figure 2 (WikiLSHTC: 325 thousand
 * labels, 1.8 million documents, a bag of 1.6 million words below one hidden layer of 100): the cost of a step of the
 * last layer at the paper's K, and the accuracy of each method after whole epochs of the whole network, on generated
 * documents of that form and on real sets.
 */
#include "ldgs.h"
#include "shape_documents.h"

#include <stdio.h>

enum { H = 100, BLOCKS = 4, METHODS = 6, LABELS = 5, SCALE = 100, OPTIONS_LENGTH = 160 };

/* The sizes of WikiLSHTC in its repository; the paper rounds them. */
static const documents_sizes wiki = {1778351, 587084, 1617899, 325056, 42, 0.75, 0.3, 0.15, LABELS};

typedef struct real {
    const char *folder, *title;
    bool bias;
} real;

/* The features of the last set have a mean of about zero, so that only a bias can represent labels that nearly all rows
 * have: it is run with the paper's network, which has no bias, and with one. */
static const real reals[] = {{"bibtex", "Bibtex", false},
                             {"corel5k", "Corel5k", false},
                             {"delicious", "Delicious", false},
                             {"hmc-cellcycle-go", "Cellcycle-GO", false},
                             {"hmc-cellcycle-go", "Cellcycle-GO with biases", true}};
enum { REALS = sizeof reals / sizeof reals[0] };
#define MADE "made"

/* Q = K/100 as in the paper, but at least `least` or all classes: rows of real sets have up to some dozen labels. */
static uint32_t searched(uint32_t classes, uint32_t least)
{
    least = least < classes ? least : classes;
    return classes / 100 > least ? classes / 100 : least;
}

static void learn_set(const papers *p, report *r, const data_pair *data, const char *prefix, const char *name,
                      uint64_t epochs, uint32_t few, bool bias)
{
    const uint32_t clusters = data->classes < 1000 ? 20 : 100;
    char sampled[OPTIONS_LENGTH], mips[OPTIONS_LENGTH], decomposed[2 * OPTIONS_LENGTH];
    snprintf(sampled, sizeof sampled, "negatives=%u", few);
    snprintf(mips, sizeof mips, "mu=5,candidates=%u,index.clusters=%u,startup=%u", few, clusters,
             (unsigned)(data->rows / 10));
    snprintf(decomposed, sizeof decomposed, "%s,blocks=%d", mips, BLOCKS);
    const method methods[METHODS] = {{"Softmax", "softmax", 10, 0, NULL},
                                     {"Sampled-Softmax", "sampled-softmax", 10, 0, sampled},
                                     {"Margin", "margin", 10, 0, "mu=5"},
                                     {"MIPS", "mips", 10, 0, mips},
                                     {"Decomp-MIPS", "decomp-mips", 10, 0, decomposed},
                                     {"One-vs-all", "one-vs-all", 10, 0, NULL}};
    const ldgs_learning how = {
        .table = r,
        .prefix = prefix,
        .curves_name = name,
        .train = data->train,
        .test = data->test,
        .several = true,
        .hidden = H,
        .bias = bias,
        .epochs = epochs,
    };
    papers_say("%s: K = %u, %u rows", data->title, data->classes, (unsigned)data->rows);
    ldgs_learn(p, &how, methods, METHODS);
}

static void learn_made_up(const papers *p, report *r)
{
    documents_sizes s = wiki;
    const uint32_t scale = p->quick ? 10 * SCALE : SCALE;
    s.rows /= scale;
    s.test_rows = p->quick ? 100 : 4000;
    s.features /= scale;
    s.classes /= scale;
    data_pair data = {"documents", NULL, NULL, s.rows, s.test_rows, s.features, s.classes};
    documents_make(p, &s, &data.train, &data.test);
    report_note(r,
                "Epochs, documents of WikiLSHTC's form at 1/%u: N = %u, D = %u, K = %u, 1 to %d labels; one hidden "
                "layer of %d, n = 10, Q = K/100, B = %d, mu = 5, rate eta0/(1 + epochs), eta0 the best power of "
                "ten after an epoch, inside of those tried; searches begin after a tenth of one.",
                scale, (unsigned)s.rows, s.features, s.classes, LABELS, H, BLOCKS);
    learn_set(p, r, &data, "", "ldgs_multilabel", p->quick ? 2 : 5, searched(s.classes, 20), false);
    data_free(&data);
}

static void learn_real(const papers *p, report *r)
{
    report_note(r, "Then real sets, for more epochs, with Q = K/100, but 100 (or K) at least.");
    for (size_t i = 0; i < REALS; i++) {
        data_pair data;
        char prefix[40], name[80];
        if (!papers_listed(p->sets, reals[i].folder) ||
            !data_read_labels(p, reals[i].folder, reals[i].title, "unit", &data)) {
            continue;
        }
        snprintf(prefix, sizeof prefix, "%s, ", reals[i].title);
        snprintf(name, sizeof name, "ldgs_multilabel-%s%s", reals[i].folder, reals[i].bias ? "-bias" : "");
        learn_set(p, r, &data, prefix, name, p->quick ? 2 : 10, searched(data.classes, 100), reals[i].bias);
        data_free(&data);
    }
}

void figure_ldgs_multilabel(const papers *p)
{
    report *r = report_new(p, "ldgs_multilabel",
                           "Yen et al. 2018, Figure 2: documents with several labels, what a step costs and brings");
    const ldgs_shape last = {p->quick ? 3000 : wiki.classes, p->quick ? 50 : 4000, H, LABELS, 0.9, 0, 0};
    const char *sets[REALS + 2] = {MADE};
    for (size_t i = 0, count = 1; i < REALS; i++) {
        sets[count] = reals[i].folder;
        count += !reals[i].bias; /* the same folder again */
    }
    papers_check_list(p->sets, "set", sets);
    if (papers_listed(p->sets, MADE)) {
        ldgs_time(p, r, &last, BLOCKS, "mu=5");
        learn_made_up(p, r);
    }
    learn_real(p, r);
    report_end(r);
}
