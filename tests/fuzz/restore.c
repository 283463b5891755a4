/*
 * Fuzzing of what is restored from saved numbers: the spherical index, the samplers `frequency` and `tree`. The first
 * byte of the input says which; then each six bytes are a place and four bytes to be put there among the numbers that
 * one was saved as. What is accepted must work, what is refused must say why. Built without a fuzzer it goes through
 * inputs of its own, too, the same ones each time.
 */
#include "restored.h"
#include "rig.h"

#include "sampler/arrays.h"

#include <xsoftmax/dataset.h>
#include <xsoftmax/draw.h>

#include <math.h>
#include <stdint.h>

enum { ROWS = 60, CLASSES = 7, FEATURES = 4, DRAWS = 40, ARRAYS = 8 };

static void patch(unsigned char *bytes, size_t room, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 6 <= size && room >= 4; i += 6) {
        size_t at = ((size_t)data[i] | (size_t)data[i + 1] << 8) % (room / 4);
        memcpy(bytes + 4 * at, data + i + 2, 4);
    }
}

static void check(xsm_status status, const xsm_error *err, bool works)
{
    if (status == XSM_OK ? !works : err->status != status || err->message[0] == '\0') {
        abort();
    }
}

static void try_index(const uint8_t *data, size_t size)
{
    restored *r = fuzz_restored();
    uint32_t numbers[RESTORED_NUMBERS];
    xsm_error err = XSM_ERROR_INIT;
    memcpy(numbers, r->numbers, sizeof numbers);
    patch((unsigned char *)numbers, sizeof numbers, data, size);
    xsm_status status = restored_from(r, numbers, &err);
    check(status, &err, status == XSM_OK && restored_works(r));
}

/* -- samplers ------------------------------------------------------------------------------------------------------ */

static xsm_dataset *make_rows(xsm_context *ctx)
{
    float x[ROWS * FEATURES];
    uint64_t offsets[ROWS + 1];
    uint32_t labels[ROWS], state = 5;
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i] = i;
        labels[i] = i * i % CLASSES;
        for (uint32_t f = 0; f < FEATURES; f++) {
            state = state * 1664525 + 1013904223;
            x[i * FEATURES + f] = (float)(state >> 8) / (1 << 24) + (float)(labels[i] == f);
        }
    }
    offsets[ROWS] = ROWS;
    xsm_labels given = {sizeof given, CLASSES, 0, offsets, labels, NULL};
    xsm_dataset *rows = NULL;
    if (xsm_dataset_from_dense(
            ctx,
            &(xsm_dense_rows){
                .size = sizeof(xsm_dense_rows), .values = x, .rows = ROWS, .features = FEATURES, .labels = &given},
            &rows, NULL) != XSM_OK) {
        abort();
    }
    return rows;
}

/* Whether log-probabilities are those of a distribution, and draws have them. */
static bool sampler_works(const xsm_sampler *s, const xsm_dataset *rows)
{
    for (uint64_t i = 0; i < 3; i++) {
        xsm_batch batch = xsm_batch_range(rows, i, 1);
        uint32_t classes[DRAWS];
        double log_q[DRAWS], sum = 0;
        float all[CLASSES];
        if (xsm_sampler_draw(s,
                             &(xsm_draw){.size = sizeof(xsm_draw),
                                         .batch = &batch,
                                         .seed = 9,
                                         .count = DRAWS,
                                         .classes = classes,
                                         .log_probabilities = log_q},
                             NULL) != XSM_OK ||
            xsm_sampler_log_probabilities(s, &batch, 0, CLASSES, all, NULL) != XSM_OK) {
            return false;
        }
        for (size_t k = 0; k < CLASSES; k++) {
            sum += exp((double)all[k]);
        }
        if (!(fabs(sum - 1) < 1e-3)) {
            return false;
        }
        for (size_t j = 0; j < DRAWS; j++) {
            if (classes[j] >= CLASSES || !(fabs(log_q[j] - (double)all[classes[j]]) <= 1e-3 * (1 + fabs(log_q[j])))) {
                return false;
            }
        }
    }
    return true;
}

/* What a sampler that was bound to the rows saves. */
typedef struct saved {
    xsm_dataset *rows;
    xsm_sampler *sampler;
    xsm_array_writer arrays;
} saved;

static const saved *know(const char *name, saved *s)
{
    xsm_context *ctx = fuzz_context();
    if (!s->rows) {
        s->rows = make_rows(ctx);
        s->arrays.context = ctx;
        if (xsm_sampler_new(ctx, name, &s->sampler, NULL) != XSM_OK ||
            xsm_sampler_bind(s->sampler, s->rows, NULL) != XSM_OK ||
            xsmi_sampler_arrays(s->sampler, &s->arrays, NULL) != XSM_OK || s->arrays.count > ARRAYS) {
            abort();
        }
    }
    return s;
}

static void try_sampler(const saved *from, const uint8_t *data, size_t size)
{
    const size_t count = from->arrays.count;
    xsm_sampler *to = NULL;
    xsmi_tensor tensors[ARRAYS];
    xsm_error err = XSM_ERROR_INIT;
    size_t room = 0, at = 0;
    memcpy(tensors, from->arrays.tensors, count * sizeof *tensors);
    for (size_t i = 0; i < count; i++) {
        room += (tensors[i].size + 7) / 8 * 8;
    }
    unsigned char *bytes = calloc(room + 8, 1);
    if (!bytes || xsm_sampler_new(fuzz_context(), from->sampler->ops.name, &to, NULL) != XSM_OK) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes + at, tensors[i].data, tensors[i].size);
        tensors[i].data = bytes + at;
        at += (tensors[i].size + 7) / 8 * 8;
    }
    if (size > 0 && data[0] % 4 == 3) { /* another shape: fewer lines than there are */
        xsmi_tensor *t = &tensors[data[0] / 4 % count];
        if (t->shape[0] > 0) {
            t->size -= t->size / t->shape[0];
            t->shape[0]--;
        }
    }
    patch(bytes, room, data + (size > 0), size - (size > 0));
    const xsm_array_reader reader = {tensors, count, "input", NULL};
    xsm_status status = xsmi_sampler_restore(to, &reader, CLASSES, FEATURES, &err);
    check(status, &err, status == XSM_OK && sampler_works(to, from->rows));
    free(bytes);
    xsm_sampler_free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static saved frequency, tree;
    if (size > 0) {
        switch (data[0] % 3) {
        case 0:
            try_index(data + 1, size - 1);
            break;
        case 1:
            try_sampler(know("frequency", &frequency), data + 1, size - 1);
            break;
        default:
            try_sampler(know("tree", &tree), data + 1, size - 1);
            break;
        }
    }
    return 0;
}

#ifndef FUZZER
/* Inputs of one to three changes. */
static void run_own(int count)
{
    uint64_t state = 1;
    for (int i = 0; i < count; i++) {
        uint8_t data[2 + 18];
        size_t changes = 1 + fuzz_number(&state) % 3, length = 2;
        data[0] = (uint8_t)i;
        data[1] = (uint8_t)(fuzz_number(&state) >> 3);
        if (i % 3 == 0) {
            length = 1; /* an index has no shapes */
        }
        for (size_t j = 0; j < changes; j++) {
            uint32_t place = fuzz_number(&state), value = fuzz_number(&state);
            place = place ^ place >> 16;
            data[length++] = (uint8_t)place;
            data[length++] = (uint8_t)(place >> 8);
            memcpy(data + length, &value, sizeof value);
            length += sizeof value;
        }
        LLVMFuzzerTestOneInput(data, length);
    }
}

int main(int argc, char **argv)
{
    run_own(3000);
    return fuzz_replay(argc, argv, false);
}
#endif
