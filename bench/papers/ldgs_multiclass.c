/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, Figure 1 (MegaFace: 672 thousand
 * identities, embeddings of 128 numbers, 4.7 million images), on generated faces of that form.
 *
 * Measures the accuracy of each method after whole epochs from zero weights, with fewer classes. The cost of its steps
 * with the paper's number of classes is measured by ldgs_steps.
 */
#include "ldgs.h"

#include <stdio.h>

enum { D = 128, BLOCKS = 8, EPOCHS = 5, METHODS = 7, IMAGES = 7, FAMILY = 8 };

/* Epochs on faces without look-alikes, or with families of them. */
static void learn_all(const papers *p, report *r, bool families)
{
    ldgs_shape s = {p->quick ? 400 : 6000, p->quick ? 20 : 90, D, 1, 1.9, 0, 0};
    s.families = families ? s.classes / FAMILY : 0;
    const uint32_t few = s.classes / 100, startup = IMAGES * s.classes / 10;
    char mips[120], decomposed[160], sampled[40], shared[60], plain[60];
    snprintf(sampled, sizeof sampled, "negatives=%u", few);
    snprintf(shared, sizeof shared, "%s,shared=yes", sampled);
    snprintf(plain, sizeof plain, "%s,log-q=no", sampled);
    snprintf(mips, sizeof mips, "candidates=%u,index.clusters=100,startup=%u", few, startup);
    snprintf(decomposed, sizeof decomposed, "%s,blocks=%d", mips, BLOCKS);
    const method methods[METHODS] = {{"Softmax", "softmax", 10, 0, NULL},
                                     {"Sampled-Softmax (paper's)", "sampled-softmax", 10, 0, plain},
                                     {"Sampled-Softmax", "sampled-softmax", 10, 0, sampled},
                                     {"Sampled-Softmax (shared)", "sampled-softmax", 10, 0, shared},
                                     {"Margin", "margin", 10, 0, NULL},
                                     {"MIPS", "mips", 10, 0, mips},
                                     {"Decomp-MIPS", "decomp-mips", 10, 0, decomposed}};
    xsm_dataset *train = ldgs_rows(p, &s, IMAGES, 0, 5), *test = ldgs_rows(p, &s, 0, 2000, 99);
    report_note(r,
                "Epochs, K = %u, %d images each, %s, Q = K/100: n = 10, rate eta0/(1 + epochs), eta0 the best power "
                "of ten after an epoch, inside of those tried; searches begin after a tenth of one.",
                s.classes, IMAGES, families ? "families of look-alikes" : "no families");
    const ldgs_learning how = {.table = r,
                               .prefix = families ? "families: " : "",
                               .curves_name = families ? "ldgs_multiclass_families" : "ldgs_multiclass",
                               .train = train,
                               .test = test,
                               .epochs = EPOCHS};
    ldgs_learn(p, &how, methods, METHODS);
    xsm_dataset_free(train);
    xsm_dataset_free(test);
}

void figure_ldgs_multiclass(const papers *p)
{
    report *r = report_new(p, "ldgs_multiclass",
                           "Yen et al. 2018, Figure 1: faces of MegaFace's form, accuracy by epoch and by time");
    learn_all(p, r, false);
    learn_all(p, r, true);
    report_end(r);
}
