/*
 * Fuzzing of checkpoints: a run resumes from a file that another has saved and that was changed meanwhile.
 *
 * The first byte of the input says which run, the second what becomes of the file as a whole; then each eight bytes are
 * a change: what is changed, which tensor or entry, a place (two bytes) and a number (four). Tensors, entries and
 * numbers are changed one by one and written as a file that is in order, checksum included, so that changes come
 * through to what they are for. A checkpoint that is refused must have changed nothing: the run then ends at the bits
 * of one that never saw it. One that is accepted must be one: what resumes from it can be saved, and resumed again to
 * the same bits.
 */
#include "fuzz.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/hash.h"
#include "base/safetensors.h"
#include "train/trainer.h"

#include <xsoftmax/ext/storage.h>
#include <xsoftmax/trainer.h>

enum { ROWS = 14, FEATURES = 5, CLASSES = 9, HIDDEN = 3, EPOCHS = 2, TENSORS = 32, ENTRIES = 128, CHANGE = 8 };

/* -- runs --------------------------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *estimator, *options, *optimizer;
    uint64_t batch;
    bool sparse, hidden;
} kind;

static const kind kinds[] = {
    {"umax", "ridge=2 weight-bound=0.5", "sgd", 1, false, false}, /* lengths of rows */
    {"softmax", "", "adagrad", 1, true, false},
    {"negative-sampling", "sampler=tree", "adagrad", 3, true, false},
    {"decomp-mips", "blocks=2 index.clusters=3 candidates=4 startup=0 ridge=1", "sgd", 1, false, false},
    {"implicit", "", "sgd", 1, false, true},
    {"hierarchical", "", "adagrad", 1, true, true},
    {"augment-reduce", "", "sgd", 2, true, false},
    {"ove", "ridge=100", "sgd", 1, true, false}, /* factors of the weights */
    {"mips", "index=exact candidates=4 startup=3", "sgd", 2, true, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

typedef struct rig {
    xsm_context *context;
    xsm_dataset *rows;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    uint64_t calls, stop_at; /* calls of the callback, and the one that stops; 0 = none */
} rig;

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    rig *r = user;
    (void)progress;
    return ++r->calls == r->stop_at;
}

static xsm_dataset *make_rows(xsm_context *context, bool sparse)
{
    static float x[ROWS * FEATURES];
    static uint32_t index[ROWS * FEATURES], labels[ROWS];
    static uint64_t offsets[ROWS + 1];
    uint32_t state = 7;
    uint64_t count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = i * i % CLASSES;
        for (uint32_t f = 0; f < FEATURES; f++) {
            state = state * 1664525 + 1013904223;
            if (!sparse || (i + f) % 3) {
                index[count] = f;
                x[count++] = (float)(state >> 8) / (1 << 24) - 0.3f + (float)(labels[i] == f);
            }
        }
        offsets[i + 1] = count;
    }
    xsm_labels given = XSM_LABELS_INIT;
    xsm_dataset *rows = NULL;
    xsm_error err = XSM_ERROR_INIT;
    given.classes = CLASSES;
    given.labels = labels;
    xsm_status status = sparse ? xsm_dataset_from_csr(context,
                                                      &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                                      .offsets = offsets,
                                                                      .index = index,
                                                                      .values = x,
                                                                      .rows = ROWS,
                                                                      .features = FEATURES,
                                                                      .labels = &given},
                                                      &rows, &err)
                               : xsm_dataset_from_dense(context,
                                                        &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                                          .values = x,
                                                                          .rows = ROWS,
                                                                          .features = FEATURES,
                                                                          .labels = &given},
                                                        &rows, &err);
    fuzz_require(status == XSM_OK, err.message);
    return rows;
}

static void set_options(xsm_estimator *e, const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    for (const char *at = options; *at;) {
        char word[64];
        size_t length = strcspn(at, " ");
        fuzz_require(length < sizeof word, "a short option");
        memcpy(word, at, length);
        word[length] = '\0';
        char *equals = strchr(word, '=');
        fuzz_require(equals != NULL, "KEY=VALUE");
        *equals = '\0';
        fuzz_require(xsm_estimator_set(e, word, equals + 1, &err) == XSM_OK, err.message);
        at += length + (at[length] == ' ');
    }
}

static void begin(rig *r, const kind *k)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options threads = XSM_CONTEXT_OPTIONS_INIT;
    xsm_embedding_options embedding = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    *r = (rig){0};
    threads.threads = 1;
    options.epochs = EPOCHS;
    options.batch = k->batch;
    options.eta = 0.3;
    options.schedule = XSM_SCHEDULE_INVERSE;
    options.seed = 5;
    options.progress = on_progress;
    options.progress_user = r;
    fuzz_require(xsm_context_new(&threads, &r->context, &err) == XSM_OK, err.message);
    r->rows = make_rows(r->context, k->sparse);
    xsm_status status =
        k->hidden ? xsm_model_new_embedding(r->context, FEATURES, HIDDEN, CLASSES, &embedding, &r->model, &err)
                  : xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &r->model, &err);
    fuzz_require(status == XSM_OK, err.message);
    fuzz_require(xsm_estimator_new(r->context, k->estimator, &r->estimator, &err) == XSM_OK, err.message);
    set_options(r->estimator, k->options);
    fuzz_require(xsm_optimizer_new(r->context, k->optimizer, &r->optimizer, &err) == XSM_OK, err.message);
    fuzz_require(xsm_trainer_new(r->context, r->model, r->rows, r->estimator, r->optimizer, &options, &r->trainer,
                                 &err) == XSM_OK,
                 err.message);
    r->trainer->report.interval = 0; /* a call after every step */
}

static void end(rig *r)
{
    xsm_trainer_free(r->trainer);
    xsm_optimizer_free(r->optimizer);
    xsm_estimator_free(r->estimator);
    xsm_model_free(r->model);
    xsm_dataset_free(r->rows);
    xsm_context_free(r->context);
}

/* A hash of all that the model is; whether all of it is finite. */
static uint64_t hash_model(rig *r, bool *finite)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    uint64_t hash = 0;
    *finite = true;
    fuzz_require(xsm_model_parameters(r->model, &p, &err) == XSM_OK, err.message);
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

/* -- files -------------------------------------------------------------------------------------------------------- */

/* What a checkpoint consists of. */
typedef struct contents {
    size_t tensor_count, entry_count;
    xsmi_tensor tensors[TENSORS]; /* in the file's order */
    uint8_t *data[TENSORS];
    char *names[TENSORS];
    char *keys[ENTRIES], *values[ENTRIES];
} contents;

static void *copy_of(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    fuzz_require(copy != NULL, "memory");
    memcpy(copy, data, size);
    return copy;
}

static char *text_of(const char *text)
{
    return copy_of(text, strlen(text) + 1);
}

static void read_contents(xsm_context *ctx, contents *c, const xsm_storage *saved)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsmi_place place = {"saved", saved};
    xsmi_container *file = NULL;
    const xsmi_tensor *t;
    const xsmi_entry *entry;
    memset(c, 0, sizeof *c);
    fuzz_require(xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, &file, &err) == XSM_OK,
                 err.message);
    for (; (t = xsmi_container_tensor_at(file, c->tensor_count)) != NULL; c->tensor_count++) {
        fuzz_require(c->tensor_count < TENSORS, "not so many tensors");
        c->tensors[c->tensor_count] = *t;
        c->data[c->tensor_count] = copy_of(t->data, t->size);
        c->names[c->tensor_count] = text_of(t->name);
    }
    for (; (entry = xsmi_container_metadata_at(file, c->entry_count)) != NULL; c->entry_count++) {
        fuzz_require(c->entry_count < ENTRIES, "not so many entries");
        c->keys[c->entry_count] = text_of(entry->key);
        c->values[c->entry_count] = text_of(entry->value);
    }
    xsmi_container_close(file);
}

static void free_contents(contents *c)
{
    for (size_t i = 0; i < c->tensor_count; i++) {
        free(c->data[i]);
        free(c->names[i]);
    }
    for (size_t i = 0; i < c->entry_count; i++) {
        free(c->keys[i]);
        free(c->values[i]);
    }
}

static uint64_t checksum_of(const contents *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->entry_count; i++) {
        sum += xsmi_entry_hash(c->keys[i], c->values[i]);
    }
    for (size_t i = 0; i < c->tensor_count; i++) {
        xsmi_tensor named = c->tensors[i];
        named.name = c->names[i];
        sum += xsmi_hash(c->data[i], named.size, xsmi_tensor_seed(&named));
    }
    return sum;
}

/* The bytes of a file with these contents and a checksum that is right or not; the caller's to free. */
static uint8_t *write_contents(const contents *c, bool right, size_t *size)
{
    json_t *header = json_object(), *metadata = json_object();
    char digits[XSMI_CHECKSUM_DIGITS + 1] = "";
    uint64_t at = 0;
    fuzz_require(header && metadata, "memory");
    xsmi_checksum_print(checksum_of(c) + !right, digits);
    for (size_t i = 0; i < c->entry_count; i++) {
        bool sum = strcmp(c->keys[i], XSMI_KEY_CHECKSUM) == 0;
        json_object_set_new(metadata, c->keys[i], json_string(sum ? digits : c->values[i]));
    }
    json_object_set_new(header, "__metadata__", metadata);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const xsmi_tensor *t = &c->tensors[i];
        json_t *shape = json_array();
        for (uint32_t j = 0; j < t->rank; j++) {
            json_array_append_new(shape, json_integer((json_int_t)t->shape[j]));
        }
        json_object_set_new(header, c->names[i],
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", xsmi_dtype_name(t->dtype), "shape", shape,
                                      "data_offsets", (json_int_t)at, (json_int_t)(at + t->size)));
        at += t->size;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    fuzz_require(text != NULL, "a header");
    uint64_t length = (strlen(text) + 8 + 63) / 64 * 64 - 8;
    uint8_t *bytes = malloc(8 + length + at), *next = bytes + 8 + length;
    fuzz_require(bytes != NULL, "memory");
    memcpy(bytes, &length, 8);
    memset(bytes + 8, ' ', length);
    memcpy(bytes + 8, text, strlen(text));
    for (size_t i = 0; i < c->tensor_count; i++) {
        memcpy(next, c->data[i], c->tensors[i].size);
        next += c->tensors[i].size;
    }
    *size = 8 + length + at;
    free(text);
    json_decref(header);
    return bytes;
}

/* -- changes ------------------------------------------------------------------------------------------------------ */

/* Puts a number among those of a tensor: its bits, or the number that it is. */
static void change_number(contents *c, size_t tensor, size_t place, uint32_t bits, bool as_value)
{
    xsmi_tensor *t = &c->tensors[tensor];
    size_t each = xsmi_dtype_size(t->dtype), count = t->size / each;
    if (count == 0) {
        return;
    }
    uint8_t *at = c->data[tensor] + place % count * each;
    float f;
    memcpy(&f, &bits, sizeof f);
    double d = (double)f;
    int64_t whole = (int32_t)bits;
    if (!as_value || each < 8) {
        memcpy(at, &bits, each < 4 ? each : 4);
    } else {
        memcpy(at, t->dtype == XSMI_DTYPE_F64 ? (const void *)&d : (const void *)&whole, 8);
    }
}

/* Gives a tensor another length, its numbers repeated or cut off. */
static void change_shape(contents *c, size_t tensor, size_t place, uint32_t number)
{
    xsmi_tensor *t = &c->tensors[tensor];
    size_t bytes = 0;
    if (t->rank == 0) {
        return;
    }
    t->shape[place % t->rank] = number % 64;
    fuzz_require(xsmi_tensor_bytes(t, &bytes), "a small tensor");
    uint8_t *data = malloc(bytes ? bytes : 1);
    fuzz_require(data != NULL, "memory");
    for (size_t i = 0; i < bytes; i++) {
        data[i] = t->size ? c->data[tensor][i % t->size] : 0;
    }
    free(c->data[tensor]);
    c->data[tensor] = data;
    t->size = bytes;
}

static void change_dtype(contents *c, size_t tensor, uint32_t number)
{
    xsmi_dtype to = (xsmi_dtype)(number % (XSMI_DTYPE_F64 + 1));
    if (xsmi_dtype_size(to) == xsmi_dtype_size(c->tensors[tensor].dtype)) {
        c->tensors[tensor].dtype = to;
    }
}

static void drop_tensor(contents *c, size_t tensor)
{
    size_t last = --c->tensor_count;
    free(c->data[tensor]);
    free(c->names[tensor]);
    for (size_t i = tensor; i < last; i++) { /* the order keeps tensors aligned */
        c->tensors[i] = c->tensors[i + 1];
        c->data[i] = c->data[i + 1];
        c->names[i] = c->names[i + 1];
    }
}

static void change_value(contents *c, size_t entry, size_t place, uint32_t number)
{
    char *value = c->values[entry];
    char text[32];
    switch (place % 4) {
    case 0:
        snprintf(text, sizeof text, "%" PRIu32, number);
        break;
    case 1:
        snprintf(text, sizeof text, "%.9g", ldexp((double)(int32_t)number, -16));
        break;
    case 2:
        value[0] = value[0] ? (char)(' ' + number % 95) : '\0';
        return;
    default:
        value[strlen(value) / 2] = '\0';
        return;
    }
    free(value);
    c->values[entry] = text_of(text);
}

static void change(contents *c, const uint8_t *bytes)
{
    size_t place = (size_t)bytes[2] | (size_t)bytes[3] << 8;
    uint32_t number;
    memcpy(&number, bytes + 4, sizeof number);
    size_t tensor = c->tensor_count ? bytes[1] % c->tensor_count : 0,
           entry = c->entry_count ? bytes[1] % c->entry_count : 0;
    unsigned what = bytes[0] % 8;
    if (what < 6 ? c->tensor_count == 0 : c->entry_count == 0) {
        return;
    }
    switch (what) {
    case 0:
        change_number(c, tensor, place, number, false);
        break;
    case 1:
        change_number(c, tensor, place, number, true);
        break;
    case 2:
        change_shape(c, tensor, place, number);
        break;
    case 3:
        change_dtype(c, tensor, number);
        break;
    case 4:
        drop_tensor(c, tensor);
        break;
    case 5: { /* two tensors change places */
        size_t other = place % c->tensor_count;
        char *name = c->names[tensor];
        c->names[tensor] = c->names[other];
        c->names[other] = name;
        break;
    }
    case 6:
        change_value(c, entry, place, number);
        break;
    default: /* an entry is no longer what it was for */
        c->keys[entry][place % (strlen(c->keys[entry]) + 1)] = '\0';
        break;
    }
}

/* -- the target --------------------------------------------------------------------------------------------------- */

/* A checkpoint of the trainer in a buffer; what reads it. */
static xsm_storage save(rig *r, xsm_buffer **buffer)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_storage storage = XSM_STORAGE_INIT;
    fuzz_require(xsm_buffer_new(r->context, buffer, &err) == XSM_OK, err.message);
    fuzz_require(xsm_buffer_get_storage(*buffer, &storage, &err) == XSM_OK, err.message);
    fuzz_require(xsm_trainer_checkpoint_to(r->trainer, &storage, &err) == XSM_OK, err.message);
    fuzz_require(xsm_buffer_get_storage(*buffer, &storage, &err) == XSM_OK, err.message);
    return storage;
}

/* Of each kind: the checkpoint of the middle of a run, and what the whole run ends at. */
typedef struct known {
    bool made;
    contents file;
    uint64_t last;
} known;

static const known *know(size_t which)
{
    static known all[KINDS];
    known *k = &all[which];
    rig r;
    bool finite;
    xsm_error err = XSM_ERROR_INIT;
    if (k->made) {
        return k;
    }
    begin(&r, &kinds[which]);
    fuzz_require(xsm_trainer_run(r.trainer, &err) == XSM_OK, err.message);
    k->last = hash_model(&r, &finite);
    uint64_t calls = r.calls;
    end(&r);
    begin(&r, &kinds[which]);
    r.stop_at = calls * 3 / 4;
    fuzz_require(xsm_trainer_run(r.trainer, &err) == XSM_CANCELLED, "stopped on the way");
    xsm_buffer *buffer;
    const xsm_storage saved = save(&r, &buffer);
    read_contents(r.context, &k->file, &saved);
    xsm_buffer_free(buffer);
    end(&r);
    k->made = true;
    return k;
}

static contents copy_contents(const contents *from)
{
    contents c = *from;
    for (size_t i = 0; i < c.tensor_count; i++) {
        c.data[i] = copy_of(from->data[i], c.tensors[i].size);
        c.names[i] = text_of(from->names[i]);
    }
    for (size_t i = 0; i < c.entry_count; i++) {
        c.keys[i] = text_of(from->keys[i]);
        c.values[i] = text_of(from->values[i]);
    }
    return c;
}

/* Runs to the end, which may be that numbers get too large; returns the hash of what is there then. */
static uint64_t run(rig *r, xsm_status *status)
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

static void try_file(const kind *which, const known *k, const uint8_t *file, size_t bytes)
{
    xsm_storage from = XSM_STORAGE_INIT;
    from.bytes = file;
    from.byte_count = bytes;
    rig r, again;
    xsm_error err = XSM_ERROR_INIT;
    begin(&r, which);
    xsm_status status = xsm_trainer_resume_from(r.trainer, &from, &err), ended, ended_again;
    fuzz_require_reason(status, &err);
    if (status == XSM_OK) {
        xsm_buffer *buffer;
        const xsm_storage saved = save(&r, &buffer);
        begin(&again, which);
        fuzz_require(xsm_trainer_resume_from(again.trainer, &saved, &err) == XSM_OK, err.message);
        xsm_buffer_free(buffer);
        uint64_t hash = run(&again, &ended_again);
        fuzz_require(run(&r, &ended) == hash && ended == ended_again, "the same bits");
        end(&again);
    } else {
        fuzz_require(run(&r, &ended) == k->last && ended == XSM_OK, "what was refused has changed nothing");
    }
    end(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t bytes;
    if (size < 2) {
        return 0;
    }
    size_t which = data[0] % KINDS;
    const known *k = know(which);
    contents c = copy_contents(&k->file);
    for (size_t i = 2; i + CHANGE <= size; i += CHANGE) {
        change(&c, data + i);
    }
    uint8_t *file = write_contents(&c, data[1] % 4 != 1, &bytes);
    if (data[1] % 4 == 2) {
        bytes -= (size_t)(data[1] / 4) * 8 % (bytes + 1); /* cut short */
    } else if (data[1] % 4 == 3) {
        file[(size_t)(data[1] / 4) * 37 % bytes] ^= 1; /* damaged */
    }
    try_file(&kinds[which], k, file, bytes);
    free(file);
    free_contents(&c);
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, false);
}
#endif
