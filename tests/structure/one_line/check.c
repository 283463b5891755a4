/*
 * check KIND NAME: whether the library lists a method of that kind and name, and whether it passes the suite for its
 * kind. A loss is an option of the estimators that search.
 */
#include <stdio.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

static xsm_error err = XSM_ERROR_INIT;

/* The table of that name if it can be reached by counting, too. */
#define LISTED(kind)                                                                                                   \
    static const xsm_##kind##_ops *listed_##kind(const char *name)                                                     \
    {                                                                                                                  \
        for (size_t i = 0; xsm_##kind##_at(i); i++) {                                                                  \
            if (strcmp(xsm_##kind##_at(i)->name, name) == 0) {                                                         \
                return xsm_##kind##_find(name);                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        return NULL;                                                                                                   \
    }
LISTED(estimator)
LISTED(sampler)
LISTED(index)
LISTED(optimizer)

static int check_sampler(const char *name)
{
    const xsm_sampler_ops *ops = listed_sampler(name);
    return ops && xsm_sampler_check(NULL, ops, NULL, &err) == XSM_OK;
}

static int check_index(const char *name)
{
    const xsm_index_ops *ops = listed_index(name);
    xsm_index_check_options options = XSM_INDEX_CHECK_OPTIONS_INIT;
    options.recall = 1;
    return ops && xsm_index_check(NULL, ops, &options, &err) == XSM_OK;
}

static int check_estimator(const char *name)
{
    const xsm_estimator_ops *ops = listed_estimator(name);
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    options.promises = XSM_ESTIMATOR_CHECK_FINITE | XSM_ESTIMATOR_CHECK_GRADIENT | XSM_ESTIMATOR_CHECK_ZERO_SUM;
    return ops && xsm_estimator_check(NULL, ops, &options, &err) == XSM_OK;
}

static int check_loss(const char *name)
{
    static const char *const estimators[] = {"mips", "decomp-mips"};
    char setting[64];
    const char *const set[] = {setting, "candidates=4", NULL};
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    snprintf(setting, sizeof setting, "loss=%s", name);
    options.set = set;
    for (int i = 0; i < 2; i++) {
        if (xsm_estimator_check(NULL, xsm_estimator_find(estimators[i]), &options, &err) != XSM_OK) {
            return 0;
        }
    }
    return 1;
}

static int check_optimizer(const char *name)
{
    const xsm_optimizer_ops *ops = listed_optimizer(name);
    return ops && xsm_optimizer_check(NULL, ops, NULL, &err) == XSM_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *kind;
        int (*check)(const char *name);
    } kinds[] = {{"estimator", check_estimator},
                 {"sampler", check_sampler},
                 {"index", check_index},
                 {"loss", check_loss},
                 {"optimizer", check_optimizer}};
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].kind) == 0) {
            int good = kinds[i].check(argv[2]);
            fprintf(stderr, "%s", good ? "" : err.message[0] ? err.message : "the library does not list it");
            return !good;
        }
    }
    fputs("usage: check KIND NAME\n", stderr);
    return 2;
}
