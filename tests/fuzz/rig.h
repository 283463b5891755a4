/* Small runs that fuzz targets start from: rows, a model, a trainer. */
#ifndef XSM_FUZZ_RIG_H
#define XSM_FUZZ_RIG_H

#include "fuzz.h"
#include "train/trainer.h"

#include <xsoftmax/trainer.h>

enum { FUZZ_ROWS = 14, FUZZ_FEATURES = 5, FUZZ_CLASSES = 9, FUZZ_HIDDEN = 3, FUZZ_EPOCHS = 2 };

typedef struct fuzz_run {
    const char *estimator, *options, *optimizer;
    uint64_t batch;
    bool sparse, hidden;
} fuzz_run;

typedef struct fuzz_rig {
    xsm_context *context;
    xsm_dataset *rows;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    uint64_t calls, stop_at; /* calls of the callback, and the one that stops; 0 = none */
} fuzz_rig;

/* The context of all inputs, with one thread, and the index of restored.h over its model: made once, never released. */
xsm_context *fuzz_context(void);
struct restored *fuzz_restored(void);
xsm_dataset *fuzz_rows(xsm_context *context, bool sparse);
void fuzz_rig_begin(fuzz_rig *r, const fuzz_run *k);
void fuzz_rig_end(fuzz_rig *r);
/* Reads all that there is to read of a model that was accepted, but its weights. */
void fuzz_look(const xsm_model *m);

#endif
