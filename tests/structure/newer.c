/*
 * A program and a library of different releases, built and run by check_releases.py: with headers whose structs have
 * the member of_a_later_release (OF_A_LATER_RELEASE), or with today's.
 */
#include <stdio.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>

static int failures;

static void expect(int truth, const char *what)
{
    if (!truth) {
        fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

static size_t progress_size, problem_size, block_size;

static int32_t at_progress(void *user, const xsm_progress *progress)
{
    (void)user;
    progress_size = progress->size;
    expect(XSM_HAS(progress, size), "a struct has its size");
    return 0;
}

static const xsm_estimator_ops *inner;

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    problem_size = problem->size;
    return inner->bind(state, problem, err);
}

static void gradient(void *state, const xsm_score_block *block)
{
    block_size = block->size;
    inner->gradient(state, block);
}

int main(void)
{
    static const float values[4][2] = {{1, 0}, {0, 1}, {1, 1}, {-1, 0}};
    static const uint32_t of_rows[4] = {0, 1, 2, 2};
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels labels;
    memset(&labels, 0, sizeof labels);
    labels.size = sizeof labels;
    labels.classes = 3;
    labels.labels = of_rows;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = values;
    dense.rows = 4;
    dense.features = 2;
    dense.labels = &labels;
    xsm_dataset *rows = NULL;
    xsm_model *model = NULL;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;

    /* What the library found by name is of its own release: its options tell, too. */
    inner = xsm_estimator_find("ove");
    expect(inner && inner->abi == XSM_EXT_ABI_VERSION, "the table has the ABI number");
    const xsm_option *option = xsm_estimator_ops_option(inner, 0);
    const size_t table_size = inner->size, option_size = option->size;

    /* A table of this program's release, longer than the library's or shorter. */
    xsm_estimator_ops own;
    memset(&own, 0, sizeof own);
    memcpy(&own, inner, table_size < sizeof own ? table_size : sizeof own);
    own.size = sizeof own;
    own.bind = bind;
    own.gradient = gradient;

    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.progress = at_progress;
    if (xsm_dataset_from_dense(NULL, &dense, &rows, &err) || xsm_model_new_linear(NULL, 2, 3, NULL, &model, &err) ||
        xsm_estimator_new_from(NULL, &own, &estimator, &err) || xsm_optimizer_new(NULL, "sgd", &optimizer, &err) ||
        xsm_trainer_new(NULL, model, rows, estimator, optimizer, &options, &trainer, &err) ||
        xsm_trainer_run(trainer, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    expect(progress_size && problem_size && block_size, "the callbacks were called");
#ifdef OF_A_LATER_RELEASE
    /* The library is older: what it hands out lacks the last member, and what it does not know it refuses. */
    expect(progress_size < sizeof(xsm_progress), "progress is shorter");
    expect(problem_size < sizeof(xsm_problem), "a problem is shorter");
    expect(block_size < sizeof(xsm_score_block), "a block is shorter");
    expect(table_size < sizeof(xsm_estimator_ops) && !XSM_HAS(inner, of_a_later_release), "a table is shorter");
    expect(option_size < sizeof(xsm_option) && !XSM_HAS(option, of_a_later_release), "an option is shorter");
    xsm_trainer *other = NULL;
    options.of_a_later_release = 1;
    expect(xsm_trainer_new(NULL, model, rows, estimator, optimizer, &options, &other, &err) == XSM_ERROR_STRUCT_NEW,
           "options that the library does not know are refused");
    expect(strstr(err.message, "xsm_trainer_options") != NULL, "the error names the struct");
    own.of_a_later_release = 1;
    xsm_estimator *unknown = NULL;
    expect(xsm_estimator_new_from(NULL, &own, &unknown, &err) == XSM_ERROR_STRUCT_NEW && !unknown,
           "a slot that the library does not know is refused");
#else
    /* The library is newer, or of the same release. */
    expect(progress_size >= sizeof(xsm_progress), "progress is as long, or longer");
    expect(problem_size >= sizeof(xsm_problem), "a problem is as long, or longer");
    expect(block_size >= sizeof(xsm_score_block), "a block is as long, or longer");
    expect(table_size >= sizeof(xsm_estimator_ops) && XSM_HAS(inner, gradient), "a table is as long, or longer");
    expect(option_size >= sizeof(xsm_option) && XSM_HAS(option, help), "an option is as long, or longer");
#ifdef WITH_A_LATER_LIBRARY
    expect(progress_size > sizeof(xsm_progress) && problem_size > sizeof(xsm_problem) &&
               block_size > sizeof(xsm_score_block) && table_size > sizeof own && option_size > sizeof(xsm_option),
           "the library is of a later release");
#endif
#endif
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    xsm_dataset_free(rows);
    return failures != 0;
}
