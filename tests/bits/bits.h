/*
 * Hashes of everything that the library computes, in small runs, to find changes of bits. Only the public interface is
 * used. A run is a function of a machine: a context (threads, instruction set) and datasets made with it. Every run is
 * made on several machines, which must agree, and its hash must be the one of the stored list.
 */
#ifndef XSM_BITS_H
#define XSM_BITS_H

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../infos.h"

/* -- data ---------------------------------------------------------------------------------------------------------- */

/* What the rows and the model are. */
enum { BITS_DENSE, BITS_SPARSE, BITS_EMBEDDING, BITS_FORMS };
extern const char *const bits_forms[BITS_FORMS];

/* The rows' features and labels in memory; the datasets are made of these. */
typedef struct bits_rows {
    uint64_t rows;
    uint32_t features, classes;
    bool sparse;
    uint64_t *offsets; /* [rows+1] of sparse rows */
    uint32_t *index;
    float *values;
    uint64_t *label_offsets; /* [rows+1] of several labels */
    uint32_t *labels;        /* [label_offsets[rows]] */
    uint32_t *first;         /* [rows] the first label of each */
} bits_rows;

/* Which rows: those of the forms, rows with more classes than a tile of scores has, rows with classes enough that a
 * search leaves some out, rows with as many features as classes, and rows with classes enough for three runs, over each
 * of which sums start anew. */
enum {
    BITS_DENSE_ROWS,
    BITS_SPARSE_ROWS,
    BITS_WIDE_ROWS,
    BITS_SEARCH_ROWS,
    BITS_TIED_ROWS,
    BITS_LONG_ROWS,
    BITS_LONG_SPARSE_ROWS,
    BITS_SETS
};

typedef struct bits_machine {
    const char *name;
    size_t every;         /* runs on it: 1 = all, 3 = every third */
    bool odd_environment; /* runs begin with rounding up, and without subnormal numbers where that can be set */
    const xsm_runner *runner;
    xsm_context *context;
    const bits_rows *rows[BITS_SETS];
    xsm_dataset *one[BITS_SETS], *several[BITS_SETS]; /* with the first label of each row, with all */
    const char *folder;                               /* for files */
} bits_machine;

/* A stream of numbers of this program's own (splitmix64), and a number of it in [-1, 1). */
uint64_t bits_next(uint64_t *state);
float bits_number(uint64_t *state);

bits_rows *bits_rows_new(uint64_t rows, uint32_t features, uint32_t classes, bool sparse, uint64_t seed);
void bits_rows_free(bits_rows *rows);
void bits_machine_open(bits_machine *machine, const char *name, uint32_t threads, uint32_t cpu_disable, size_t every);
void bits_machine_close(bits_machine *machine);
/* A path in the machine's folder, valid until the next call. */
const char *bits_path(const bits_machine *machine, const char *file);

/* -- hashes -------------------------------------------------------------------------------------------------------- */

void bits_add(uint64_t *hash, const void *data, size_t size);
void bits_add_text(uint64_t *hash, const char *text);
void bits_add_double(uint64_t *hash, double value);
void bits_add_count(uint64_t *hash, uint64_t value);
/* Weights and bias, vectors of an embedding model, and the scores of `data` where a model has a correction. */
xsm_status bits_add_model(uint64_t *hash, xsm_model *model, const xsm_dataset *data);
xsm_status bits_add_dataset(uint64_t *hash, const xsm_dataset *data);
/* A file's bytes, but for what is no result in a safetensors file: its checksum, the library's version, the clock. */
xsm_status bits_add_file(uint64_t *hash, const char *path);

/* -- runs ---------------------------------------------------------------------------------------------------------- */

/* Adds what came of it to the hash; a status that is not XSM_OK is what came of it as well: the list then has its
 * name. */
typedef xsm_status (*bits_run)(const bits_machine *machine, const void *what, uint64_t *hash);

/* Makes a run on a thread of its own, in the machine's floating-point environment; `used` gets the bytes of its stack
 * that it has touched. */
xsm_status bits_run_as_guest(bits_run run, const bits_machine *machine, const void *what, uint64_t *hash, size_t *used);

/* Bytes of a thread's stack, and the most of them that a run may use. */
extern const size_t bits_stack_size, bits_stack_most;
enum { BITS_STACK_PATTERN = 0xa5 };
/* A stack, behind a page that nobody may touch; and how much of one was used that had been filled with the pattern. */
unsigned char *bits_new_stack(void);
size_t bits_stack_used(const unsigned char *stack);

/* A thread pool of a host whose threads have such stacks, for one context at a time; and the most that one of them has
 * used since it was opened, while no job runs. */
const xsm_runner *bits_runner_open(void);
size_t bits_runner_used(void);
void bits_runner_close(void);

/* Makes a run that gives no hash, on one machine, which must succeed. */
void bits_try(bits_run run, const bits_machine *machine, const void *what, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* Makes a run on every machine and puts it on the list. The first word of the name is the group. */
void bits_record(bits_run run, const void *what, const char *name, ...) __attribute__((format(printf, 3, 4)));

/* Ends a run function at the label `end` when a call fails. */
#define BITS_TRY(call)                                                                                                 \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != XSM_OK) {                                                                                        \
            goto end;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Tells of a defect of this program or of its surroundings, and ends it. */
_Noreturn void bits_fail(const char *message);

/* -- options ------------------------------------------------------------------------------------------------------- */

/* Value number `n` of an option that is not its default: every other word of a choice, every word that may stand in
 * place of a number and a number of the option's range. False past the last. */
bool bits_value(const xsm_option *option, size_t n, char *buffer, size_t size);
/* Calls `visit` with "key=value" for each of them; NULL = there is no such option. */
typedef void (*bits_visit)(const void *user, const char *settings);
/* All settings of an estimator that differ from the defaults in one thing: its own options, those of each sampler that
 * it takes and of each index, "sampler=tree sampler.folds=3". */
void bits_estimator_settings(const xsm_estimator_ops *ops, bits_visit visit, const void *user);
/* Whether an estimator has an option, and a choice or word of it. */
bool bits_has_option(const xsm_estimator_ops *ops, const char *option, const char *word);
/* Sets "key=value key=value". */
xsm_status bits_set_estimator(xsm_estimator *estimator, const char *settings);

/* -- what a run is made from --------------------------------------------------------------------------------------- */

/* A training run, or what stands for its first half: a model, an estimator and an optimizer. */
typedef struct bits_training {
    const char *estimator;
    const char *settings; /* of the estimator; NULL = none */
    const char *optimizer;
    const char *optimizer_settings; /* one "key=value"; NULL = none */
    int form;                       /* BITS_DENSE, ... */
    int set;                        /* rows: BITS_DENSE_ROWS, ... */
    bool several, bias, euclidean, feature_major, tied, zeros;
    int32_t activation, pool, schedule, order;
    uint64_t batch, epochs;
    double eta;
} bits_training;

/* Estimators that sum over all classes, with their settings; the last name is NULL. */
typedef struct bits_sum {
    const char *name, *estimator, *settings;
} bits_sum;
extern const bits_sum bits_sums[];

/* Rows and settings that most runs have: one label, batches of 5, two epochs, a bias, weights that are not zero. */
bits_training bits_training_of(const char *estimator, int form);
/* The same with rows of three runs of classes. */
bits_training bits_training_long(const bits_sum *sum, int form);

typedef struct bits_rig {
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    const xsm_dataset *data; /* the machine's */
} bits_rig;
xsm_status bits_rig_new(const bits_machine *machine, const bits_training *t, bits_rig *out);
void bits_rig_free(bits_rig *rig);
/* Trains it. */
xsm_status bits_rig_train(const bits_machine *machine, const bits_training *t, bits_rig *rig);

/* The runs, a file each. */
void bits_of_training(void);
void bits_of_loops(void);
void bits_of_models(void);
void bits_of_searches(void);
void bits_of_files(void);
void bits_of_words(void);
void bits_of_trees(void);
/* The suites for tables of a host, and long calls. */
void bits_of_suites(const bits_machine *machine);

#endif
