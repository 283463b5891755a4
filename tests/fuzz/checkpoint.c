/*
 * Fuzzing of checkpoints: a run resumes from a file that another has saved and that was changed meanwhile.
 *
 * Inputs are those of contents.h. A checkpoint that is refused must have changed nothing: what is saved then and, of
 * some inputs, the first steps have the bits of a run that never saw it. One that is accepted must be one: what resumes
 * from it can be saved, and resumed again to the same bits.
 */
#include "contents.h"
#include "rig.h"

#include <math.h>

#include "base/hash.h"

/* -- runs --------------------------------------------------------------------------------------------------------- */

static const fuzz_run kinds[] = {
    {"umax", "ridge=2 weight-bound=0.5", "sgd", 1, false, false}, /* lengths of rows */
    {"softmax", "", "adagrad", 1, true, false},
    {"negative-sampling", "sampler=tree", "adagrad", 3, true, false},
    {"decomp-mips", "blocks=2 index.clusters=3 candidates=4 startup=0 ridge=1", "sgd", 1, false, false},
    {"implicit", "", "sgd", 1, false, true},
    {"hierarchical", "", "adagrad", 1, true, true},
    {"augment-reduce", "", "sgd", 2, true, false},
    {"ove", "ridge=100", "sgd", 1, true, false}, /* factors of the weights */
    {"mips", "index=exact candidates=4 startup=3", "sgd", 2, true, false},
    {"nce", "sampler=recent", "sgd", 2, true, false},
    {"sampled-softmax", "sampler=midx sampler.words=2 sampler.every=3", "adagrad", 2, true, false},
    {"importance", "sampler=label-tree", "row-adagrad", 2, true, false},
    {"ove-searched", "index.clusters=3", "row-adagrad", 3, true, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* A hash of all that the model is; whether all of it is finite. */
static uint64_t hash_model(fuzz_rig *r, bool *finite)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    uint64_t hash = 0;
    *finite = true;
    fuzz_require(xsm_model_get_parameters(r->model, &p, &err) == XSM_OK, err.message);
    for (uint32_t k = 0; k < p.classes; k++) {
        for (uint32_t f = 0; f < p.features; f++) {
            const float *w = &p.weight[(size_t)k * p.class_step + (size_t)f * p.feature_step];
            *finite = *finite && isfinite(*w);
            hash = xsmi_hash(w, sizeof *w, hash);
        }
        if (p.bias) {
            *finite = *finite && isfinite(p.bias[k]);
            hash = xsmi_hash(&p.bias[k], sizeof p.bias[k], hash);
        }
    }
    return hash;
}

/* -- the target --------------------------------------------------------------------------------------------------- */

/* A checkpoint of the trainer in a buffer; what reads it. */
static xsm_storage save(fuzz_rig *r, xsm_buffer **buffer)
{
    xsm_error err = XSM_ERROR_INIT;
    *buffer = fuzz_buffer(r->context);
    const xsm_storage storage = fuzz_storage(*buffer);
    fuzz_require(xsm_trainer_checkpoint(r->trainer, NULL, &storage, &err) == XSM_OK, err.message);
    return fuzz_storage(*buffer);
}

static uint64_t hash_saved(fuzz_rig *r)
{
    xsm_buffer *buffer;
    const xsm_storage saved = save(r, &buffer);
    const uint64_t hash = xsmi_hash(saved.bytes, (size_t)saved.byte_count, 0);
    xsm_buffer_free(buffer);
    return hash;
}

/* Takes steps until the callback has been called so often; returns the hash of what is there then. */
static uint64_t run_until(fuzz_rig *r, uint64_t calls)
{
    bool finite;
    xsm_error err = XSM_ERROR_INIT;
    r->stop_at = calls;
    fuzz_require(xsm_trainer_run(r->trainer, &err) == XSM_CANCELLED, "stopped on the way");
    return hash_model(r, &finite);
}

/* Of each fuzz_run: the checkpoint of the middle of a run; hashes of one that has not begun, and of what a quarter of
 * the calls make of it. */
typedef struct known {
    uint64_t calls, fresh, early;
    fuzz_contents file;
} known;

static const known *know(size_t which)
{
    static known all[KINDS];
    known *k = &all[which];
    fuzz_rig r;
    xsm_error err = XSM_ERROR_INIT;
    if (k->calls > 0) {
        return k;
    }
    fuzz_rig_begin(&r, &kinds[which]);
    k->fresh = hash_saved(&r);
    fuzz_require(xsm_trainer_run(r.trainer, &err) == XSM_OK, err.message);
    const uint64_t calls = r.calls;
    fuzz_rig_end(&r);
    k->calls = calls / 4 + 1;
    fuzz_rig_begin(&r, &kinds[which]);
    k->early = run_until(&r, k->calls);
    (void)run_until(&r, calls * 3 / 4);
    xsm_buffer *buffer;
    const xsm_storage saved = save(&r, &buffer);
    fuzz_contents_read(r.context, &saved, &k->file);
    xsm_buffer_free(buffer);
    fuzz_rig_end(&r);
    return k;
}

/* Runs to the end, which may be that numbers get too large; returns the hash of what is there then. */
static uint64_t run(fuzz_rig *r, xsm_status *status)
{
    bool finite;
    xsm_error err = XSM_ERROR_INIT;
    *status = xsm_trainer_run(r->trainer, &err);
    fuzz_require(*status == XSM_OK || *status == XSM_ERROR_DIVERGED, err.message);
    fuzz_require_reason(*status, &err);
    uint64_t hash = hash_model(r, &finite);
    fuzz_require(finite, "the model is finite whatever happens");
    return hash;
}

static void try_file(const fuzz_run *which, const known *k, const fuzz_file *file, bool steps)
{
    const xsm_storage from = fuzz_file_storage(file);
    fuzz_rig r, again;
    xsm_error err = XSM_ERROR_INIT;
    fuzz_rig_begin(&r, which);
    xsm_status status = xsm_trainer_resume(r.trainer, NULL, &from, &err), ended, ended_again;
    fuzz_require_reason(status, &err);
    if (status == XSM_OK) {
        xsm_buffer *buffer;
        const xsm_storage saved = save(&r, &buffer);
        fuzz_rig_begin(&again, which);
        fuzz_require(xsm_trainer_resume(again.trainer, NULL, &saved, &err) == XSM_OK, err.message);
        xsm_buffer_free(buffer);
        uint64_t hash = run(&again, &ended_again);
        fuzz_require(run(&r, &ended) == hash && ended == ended_again, "the same bits");
        fuzz_rig_end(&again);
    } else {
        fuzz_require(hash_saved(&r) == k->fresh && (!steps || run_until(&r, k->calls) == k->early),
                     "what was refused has changed nothing");
    }
    fuzz_rig_end(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const size_t which = data[0] % KINDS;
    const known *k = know(which);
    xsm_context *ctx = fuzz_context();
    fuzz_file file;
    if (fuzz_contents_make(ctx, &k->file, data, size, &file)) {
        try_file(&kinds[which], k, &file, xsmi_hash(data, size, 0) % 8 == 0);
        fuzz_file_free(&file);
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    fuzz_contents_run(300);
    return fuzz_replay(argc, argv, false);
}
#endif
