/*
 * The correction of a model's scores (logits): what is added to the scores of its weights. Where training drew classes
 * from p_n and learnt log p(k|x) - log p_n(k|x) + const (Bamler and Mandt 2020, eq. 5), log p_n(k|x) is added. The
 * values of pairs of a feature and a class can be added. The correction is part of the model: scores from the tiles and
 * from the public interface include it.
 *
 * It never changes once made and is reference-counted.
 */
#ifndef XSMI_CORRECTION_H
#define XSMI_CORRECTION_H

#include "base/counted.h"
#include "base/safetensors.h"
#include "model/tile.h"
#include "model/tree_file.h"

typedef struct xsmi_correction xsmi_correction;

/* Most tensors of a correction. */
#define XSMI_CORRECTION_TENSORS XSMI_TREE_TENSORS

/* A kind of correction: one file, which ends in its table, and one line in XSMI_CORRECTIONS. */
typedef struct xsmi_correction_kind {
    int32_t number;        /* xsm_model_info::correction_kind */
    const char *name;      /* xsm_model_info::correction */
    const char *described; /* in messages: "scores made with ..." */
    size_t size;           /* of the struct, whose first member is an xsmi_correction */
    bool drawn;            /* by the sampler of the training, which takes it into account; else counted */
    /* Releases what the struct holds. */
    void (*clear)(xsmi_correction *c);
    /* Adds the correction to the scores of chosen classes of a row. `scratch` has c->code floats. */
    void (*chosen)(const xsmi_correction *c, const xsmi_features *x, const uint32_t *classes, size_t count,
                   float *scores, float *scratch);
    /* Computes what the tiles of a block of rows need, to c->block bytes; NULL if they need nothing. */
    void (*prepare)(const xsmi_correction *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared);
    /* Adds the correction to a tile of that block. */
    void (*tile)(const xsmi_correction *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                 const void *prepared, float *scores);
    /* Its tensors in a model's file; NULL at the end. A kind without save() cannot be saved. */
    const char *const *tensor_names;
    /* Lists them with their data; returns their number. */
    size_t (*save)(const xsmi_correction *c, xsmi_tensor *tensors);
    xsm_status (*load)(const xsmi_tensor_source *source, xsmi_correction **out, xsm_error *err);
} xsmi_correction_kind;

/* All kinds. */
#define XSMI_CORRECTIONS(X)                                                                                            \
    X(xsmi_classes_correction)                                                                                         \
    X(xsmi_tree_correction)                                                                                            \
    X(xsmi_pairs_correction)

#define XSMI_DECLARE(kind) extern const xsmi_correction_kind kind;
XSMI_CORRECTIONS(XSMI_DECLARE)
#undef XSMI_DECLARE

struct xsmi_correction {
    const xsmi_correction_kind *kind;
    xsm_context *context;
    xsmi_holders holders;
    uint32_t classes;
    size_t code, block;    /* scratch of kind->chosen, in floats, and of kind->prepare, in bytes */
    const float *numbers;  /* [classes] if it is one number per class, which an index can search; else NULL */
    const xsmi_tree *tree; /* if it has a tree, which finds classes; else NULL */
};

/* A correction of a kind, kind->size bytes, zeros after the first member. */
xsm_status xsmi_correction_new(xsm_context *ctx, const xsmi_correction_kind *kind, uint32_t classes,
                               xsmi_correction **out, xsm_error *err);
xsmi_correction *xsmi_correction_retain(xsmi_correction *c);
void xsmi_correction_release(xsmi_correction *c);

/* One number per class, [classes], finite; copied. */
xsm_status xsmi_correction_of_classes(xsm_context *ctx, const float *log_q, uint32_t classes, xsmi_correction **out,
                                      xsm_error *err);
/* That of the classes first..first+classes of a model, numbered from first. */
xsm_status xsmi_correction_of_part(xsmi_correction *whole, uint32_t first, uint32_t classes, xsmi_correction **out,
                                   xsm_error *err);
/* A tree; its contents are moved, and `tree` is left empty. */
xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_correction **out, xsm_error *err);

/* Floats of scratch for kind->chosen; 0 for NULL. */
static inline size_t xsmi_correction_code(const xsmi_correction *c)
{
    return c ? c->code : 0;
}

/* Corrections in a model's file (correction_file.c). */
/* The correction's tensors with their data; returns their number. */
size_t xsmi_correction_tensors(const xsmi_correction *c, xsmi_tensor tensors[XSMI_CORRECTION_TENSORS]);
/* Reads the correction of a model; NULL if the file has none. The source has the model's shape, and no tensors yet. */
xsm_status xsmi_correction_read(const xsmi_container *file, xsmi_tensor_source *source, xsmi_correction **out,
                                xsm_error *err);

#endif
