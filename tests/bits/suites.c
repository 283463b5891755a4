/* The suites that try a table, each on the tables of the library, for the stack that they need. */
#include "bits.h"

#include <stdio.h>

#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

static xsm_status told(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        printf("%s\n", err->message);
    }
    return status;
}

static xsm_status try_estimator(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    (void)hash;
    options.promises = 0; /* which differ from method to method */
    return told(xsm_estimator_check(machine->context, what, &options, &err), &err);
}

static xsm_status try_optimizer(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    (void)hash;
    return told(xsm_optimizer_check(machine->context, what, NULL, &err), &err);
}

static xsm_status try_sampler(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler_check_options options = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    (void)hash;
    options.draws = 2000;
    return told(xsm_sampler_check(machine->context, what, &options, &err), &err);
}

static xsm_status try_index(const bits_machine *machine, const void *what, uint64_t *hash)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index_check_options options = XSM_INDEX_CHECK_OPTIONS_INIT;
    (void)hash;
    options.rows = 300;
    options.recall = 0.5; /* of any index with its default settings */
    return told(xsm_index_check(machine->context, what, &options, &err), &err);
}

void bits_of_suites(const bits_machine *machine)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        bits_try(try_estimator, machine, xsm_estimator_at(i), "xsm_estimator_check() %s", xsm_estimator_at(i)->name);
    }
    for (size_t i = 0; xsm_optimizer_at(i); i++) {
        bits_try(try_optimizer, machine, xsm_optimizer_at(i), "xsm_optimizer_check() %s", xsm_optimizer_at(i)->name);
    }
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        bits_try(try_sampler, machine, xsm_sampler_at(i), "xsm_sampler_check() %s", xsm_sampler_at(i)->name);
    }
    for (size_t i = 0; xsm_index_at(i); i++) {
        bits_try(try_index, machine, xsm_index_at(i), "xsm_index_check() %s", xsm_index_at(i)->name);
    }
}
