/*
 * The correction of a part of a divided model (divided.h): passes calls on to the correction of the whole model, with
 * other class numbers.
 */
#include "model/head.h"

/* Number of classes that are renumbered together. */
#define SOME 64

typedef struct of_part {
    xsmi_head base;
    xsmi_head *whole; /* a reference */
    uint32_t first;
} of_part;

static void clear(xsmi_head *c)
{
    xsmi_head_release(((of_part *)c)->whole);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    const of_part *p = (const of_part *)c;
    uint32_t moved[SOME];
    for (size_t start = 0, n; start < count; start += n) {
        n = XSMI_MIN(count - start, SOME);
        for (size_t j = 0; j < n; j++) {
            moved[j] = p->first + classes[start + j];
        }
        p->whole->kind->chosen(p->whole, x, moved, n, scores + start, scratch);
    }
}

static void prepare(const xsmi_head *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared)
{
    const xsmi_head *whole = ((const of_part *)c)->whole;
    whole->kind->prepare(whole, kernels, rows, count, prepared);
}

static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    const of_part *p = (const of_part *)c;
    xsmi_tile moved = *tile;
    moved.first += p->first;
    p->whole->kind->tile(p->whole, &moved, rows, count, prepared, scores);
}

#define KIND                                                                                                           \
    .number = XSM_CORRECTION_NONE, .name = "part", .described = "the correction of a whole model",                     \
    .size = sizeof(of_part), .clear = clear, .chosen = add_chosen, .tile = add_tile

static const xsmi_head_kind part_correction = {KIND};
static const xsmi_head_kind prepared_correction = {KIND, .prepare = prepare};

xsm_status xsmi_correction_of_part(xsmi_head *whole, uint32_t first, uint32_t classes, xsmi_head **out, xsm_error *err)
{
    xsmi_head *c = NULL;
    XSMI_TRY(xsmi_head_new(whole->context, whole->kind->prepare ? &prepared_correction : &part_correction, classes, &c,
                           err));
    of_part *p = (of_part *)c;
    p->whole = xsmi_head_retain(whole);
    p->first = first;
    c->code = whole->code;
    c->block = whole->block;
    c->numbers = whole->numbers ? whole->numbers + first : NULL;
    *out = c;
    return XSM_OK;
}
