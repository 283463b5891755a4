/*
 * Saving to and loading from storages of a host: the bytes of files, whatever pieces the host reads and writes; every
 * failure of the host's functions is an error that names the storage, and loses nothing that was saved before.
 */
#include "training.h"

#include <xsoftmax/buffer.h>
#include <xsoftmax/search.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/trainer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- a host's storage ---------------------------------------------------------------------------------------------- */

enum { ROOM = 1 << 20, NEVER = INT32_MAX };

/* A disk with an archive on it: what is saved stands behind `before` bytes. A save goes to `draft`. */
typedef struct disk {
    _Alignas(64) unsigned char draft[ROOM], saved[ROOM];
    size_t before, position, end, saved_end; /* in the archive */
    size_t step;                             /* most bytes of a read or write; 0 = any number */
    uint64_t announced;                      /* by begin() */
    size_t begins, ends, dropped;
    bool open;
    long write_fails, read_fails, seek_fails; /* in so many bytes, or calls, from now on */
    int32_t begin_result, end_result;
    xsm_source source;
} disk;

static int32_t disk_begin(void *user, uint64_t bytes)
{
    disk *d = user;
    assert_false(d->open);
    d->open = true;
    d->begins++;
    d->announced = bytes;
    d->position = d->end = d->before;
    return d->begin_result;
}

static int64_t disk_write(void *user, const void *data, size_t size)
{
    disk *d = user;
    assert_true(d->open && size > 0);
    size_t count = d->step && d->step < size ? d->step : size;
    if (d->write_fails < (long)count) {
        return d->write_fails % 2 ? 0 : -5; /* both are failures */
    }
    d->write_fails -= (long)count;
    assert_true(d->position + count <= ROOM);
    memcpy(d->draft + d->position, data, count);
    d->position += count;
    d->end = d->position > d->end ? d->position : d->end;
    return (int64_t)count;
}

static int32_t disk_seek(void *user, int64_t distance)
{
    disk *d = user;
    assert_true(d->open);
    if (d->seek_fails-- == 0) {
        return -3;
    }
    d->position = (size_t)((int64_t)d->position + distance);
    assert_true(d->position >= d->before && d->position <= d->end);
    return 0;
}

static int32_t disk_end(void *user, int32_t complete)
{
    disk *d = user;
    assert_true(d->open);
    d->open = false;
    d->ends++;
    d->dropped += complete == 0;
    if (complete && d->end_result == 0) {
        assert_int_equal(d->position, d->end);
        assert_int_equal(d->end - d->before, d->announced);
        memcpy(d->saved, d->draft, d->end);
        d->saved_end = d->end;
        d->position = d->before;
    }
    return complete ? d->end_result : 99; /* which nobody looks at */
}

static int64_t disk_read(void *user, void *buffer, size_t size)
{
    disk *d = user;
    size_t count = d->saved_end - d->position;
    count = count < size ? count : size;
    count = d->step && d->step < count ? d->step : count;
    if (d->read_fails < (long)count) {
        return -7;
    }
    d->read_fails -= (long)count;
    if (count > 0) {
        memcpy(buffer, d->saved + d->position, count);
    }
    d->position += count;
    return (int64_t)count;
}

static disk *new_disk(void)
{
    disk *d = aligned_alloc(64, sizeof *d);
    assert_non_null(d);
    memset(d, 0, sizeof *d);
    d->write_fails = d->read_fails = d->seek_fails = NEVER;
    return d;
}

static xsm_storage disk_storage(disk *d)
{
    xsm_storage s = XSM_STORAGE_INIT;
    s.name = "the disk";
    d->source = (xsm_source){sizeof(xsm_source), d, disk_read};
    s.source = &d->source;
    s.user = d;
    s.begin = disk_begin;
    s.write = disk_write;
    s.seek = disk_seek;
    s.end = disk_end;
    return s;
}

static xsm_storage bytes_storage(const void *bytes, size_t size)
{
    xsm_storage s = XSM_STORAGE_INIT;
    s.name = "the bytes";
    s.bytes = bytes;
    s.byte_count = size;
    return s;
}

/* -- what is saved ------------------------------------------------------------------------------------------------- */

enum { LINEAR, EMBEDDING, PRUNED, LABEL_TREE, CHECKPOINT, SAMPLER, INDEX, THINGS };

/* Something that can be saved, and a second one of its kind for a checkpoint to be resumed in. */
typedef struct thing {
    int kind;
    test_problem p;
    xsm_model *model;
    xsm_sampler *sampler;
    xsm_index *index;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
} thing;

static void begin_training(thing *t, xsm_context *ctx)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.epochs = 2;
    t->model = test_model(ctx, &t->p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    t->estimator = test_estimator(ctx, "umax", "");
    assert_ok(xsm_optimizer_new(ctx, "sgd", &t->optimizer, &err), err);
    assert_ok(xsm_trainer_new(ctx, t->model, t->p.data, t->estimator, t->optimizer, &o, &t->trainer, &err), err);
}

static thing new_thing(int kind, bool trained)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    thing t = {.kind = kind, .p = test_problem_new(40, 9, 12, true, 5)};
    xsm_model *dense;
    switch (kind) {
    case LINEAR:
        t.model = test_model(NULL, &t.p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        assert_ok(xsm_model_set_metadata(t.model, "k", "v", &err), err);
        assert_ok(xsm_model_add_pairs(t.model, t.p.data, 1, &err), err);
        break;
    case EMBEDDING:
        assert_ok(xsm_model_new_embedding(NULL, 9, 3, 12, &o, &t.model, &err), err);
        break;
    case PRUNED:
        dense = test_model(NULL, &t.p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        assert_ok(xsm_model_prune(dense, NULL, &t.model, &err), err);
        xsm_model_free(dense);
        break;
    case LABEL_TREE:
        assert_ok(xsm_fit_label_tree(NULL, t.p.data, NULL, &t.model, NULL, &err), err);
        break;
    case CHECKPOINT:
        begin_training(&t, NULL);
        if (trained) {
            assert_ok(xsm_trainer_run(t.trainer, &err), err);
        }
        break;
    case INDEX:
        t.model = test_model(NULL, &t.p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        assert_ok(xsm_index_new(NULL, "spherical", &t.index, &err), err);
        assert_ok(xsm_index_build_model(t.index, t.model, &err), err);
        break;
    default:
        assert_ok(xsm_sampler_new(NULL, "tree", &t.sampler, &err), err);
        assert_ok(xsm_sampler_bind(t.sampler, t.p.data, &err), err);
        break;
    }
    return t;
}

static void free_thing(thing *t)
{
    xsm_trainer_free(t->trainer);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
    xsm_sampler_free(t->sampler);
    xsm_index_free(t->index);
    test_problem_free(&t->p);
}

static xsm_status save(const thing *t, const xsm_storage *to, xsm_error *err)
{
    return t->kind == CHECKPOINT ? xsm_trainer_checkpoint(t->trainer, NULL, to, err)
           : t->kind == SAMPLER  ? xsm_sampler_save(t->sampler, NULL, to, err)
           : t->kind == INDEX    ? xsm_index_save(t->index, NULL, to, err)
                                 : xsm_model_save(t->model, NULL, to, err);
}

static xsm_status save_file(const thing *t, const char *path, xsm_error *err)
{
    return t->kind == CHECKPOINT ? xsm_trainer_checkpoint(t->trainer, path, NULL, err)
           : t->kind == SAMPLER  ? xsm_sampler_save(t->sampler, path, NULL, err)
           : t->kind == INDEX    ? xsm_index_save(t->index, path, NULL, err)
                                 : xsm_model_save(t->model, path, NULL, err);
}

/* Loads, and saves what was loaded to `again` if that is not NULL. */
static xsm_status load_again(int kind, const xsm_storage *from, const xsm_load_options *o, const xsm_storage *again,
                             xsm_error *err)
{
    thing t = {.kind = kind};
    xsm_status status;
    if (kind == CHECKPOINT) {
        t = new_thing(kind, false);
        status = xsm_trainer_resume(t.trainer, NULL, from, err);
    } else if (kind == INDEX) {
        thing of = new_thing(kind, false);
        status = xsm_index_load(NULL, NULL, from, NULL, of.model, &t.index, err);
        free_thing(&of); /* the index keeps the model */
    } else {
        status = kind == SAMPLER ? xsm_sampler_load(NULL, NULL, from, NULL, &t.sampler, err)
                                 : xsm_model_load(NULL, NULL, from, o, &t.model, err);
    }
    if (status == XSM_OK && again) {
        status = save(&t, again, err);
    }
    free_thing(&t);
    return status;
}

static unsigned char *file_of(const thing *t, size_t *size)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *path = test_path("saved");
    assert_ok(save_file(t, path, &err), err);
    return test_read(path, size);
}

/* -- the same bytes ------------------------------------------------------------------------------------------------ */

static void assert_saved(const disk *d, const unsigned char *bytes, size_t size)
{
    assert_int_equal(d->saved_end - d->before, size);
    assert_memory_equal(d->saved + d->before, bytes, size);
}

TEST(test_same_bytes)
{
    static const struct {
        size_t before, step;
        bool forward;
    } ways[] = {{0, 0, false}, {24, 7, false}, {0, 1, false}, {8, 0, true}, {0, 11, true}};
    disk *d = new_disk();
    for (int kind = 0; kind < THINGS; kind++) {
        thing t = new_thing(kind, true);
        size_t size;
        unsigned char *bytes = file_of(&t, &size);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            xsm_storage s = disk_storage(d), in_place;
            d->before = ways[i].before;
            d->step = ways[i].step;
            d->begins = d->ends = d->dropped = 0;
            s.seek = ways[i].forward ? NULL : s.seek;
            assert_ok(save(&t, &s, &err), err);
            assert_true(d->begins == 1 && d->ends == 1 && d->dropped == 0);
            assert_saved(d, bytes, size);
            /* From the source, which has more bytes behind; from the bytes in place and copied. */
            d->saved_end += 5;
            d->position = d->before;
            assert_ok(load_again(kind, &s, NULL, NULL, &err), err);
            assert_int_equal(d->position, d->before + size);
            in_place = bytes_storage(bytes, size);
            for (int copy = 0; copy < 2; copy++) {
                assert_ok(load_again(kind, &in_place, STRUCT(xsm_load_options, .copy = copy), &s, &err), err);
                assert_saved(d, bytes, size);
            }
            d->position = d->before;
            in_place = s; /* what a source has read is saved as it was */
            assert_ok(load_again(kind, &in_place, NULL, &s, &err), err);
            assert_saved(d, bytes, size);
        }
        free(bytes);
        free_thing(&t);
    }
    free(d);
    test_files_end();
}

TEST(test_functions_left_out)
{
    disk *d = new_disk();
    thing t = new_thing(LINEAR, true);
    xsm_storage s = disk_storage(d);
    size_t size;
    unsigned char *bytes = file_of(&t, &size);
    s.begin = NULL;
    s.end = NULL;
    d->open = true; /* the asserts need no begin() */
    assert_ok(save(&t, &s, &err), err);
    assert_int_equal(d->end, size);
    assert_memory_equal(d->draft, bytes, size);
    free(bytes);
    free_thing(&t);
    free(d);
    test_files_end();
}

/* -- buffers ------------------------------------------------------------------------------------------------------- */

TEST(test_buffers)
{
    for (int kind = 0; kind < THINGS; kind++) {
        thing t = new_thing(kind, true);
        xsm_buffer *buffer;
        xsm_storage s = XSM_STORAGE_INIT;
        size_t size, count = 1;
        unsigned char *bytes = file_of(&t, &size);
        s.name = "b";
        assert_ok(xsm_buffer_new(NULL, &buffer, &err), err);
        assert_null(xsm_buffer_bytes(buffer, &count));
        assert_int_equal(count, 0);
        assert_ok(xsm_buffer_get_storage(buffer, &s, &err), err);
        assert_string_equal(s.name, "b");
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_STATE, err); /* it is empty */
        for (int i = 0; i < 2; i++) {
            assert_ok(save(&t, &s, &err), err);
            const void *saved = xsm_buffer_bytes(buffer, &count);
            assert_int_equal(count, size);
            assert_memory_equal(saved, bytes, size);
            assert_true((uintptr_t)saved % 64 == 0);
        }
        assert_ok(xsm_buffer_get_storage(buffer, &s, &err), err);
        assert_ok(load_again(kind, &s, NULL, NULL, &err), err);
        /* A save that fails leaves the bytes as they are. */
        if (kind == LINEAR) {
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(t.model, &w, &err), err);
            w.weight[(size_t)(w.classes - 1) * w.class_step] = NAN;
            assert_fails(save(&t, &s, &err), XSM_ERROR_DIVERGED, err);
            assert_memory_equal(xsm_buffer_bytes(buffer, NULL), bytes, size);
        }
        xsm_buffer_free(buffer);
        free(bytes);
        free_thing(&t);
    }
    xsm_buffer_free(NULL);
    assert_null(xsm_buffer_bytes(NULL, NULL));
    test_files_end();
}

static void count_release(void *user)
{
    ++*(int *)user;
}

/* A model over a buffer's bytes keeps them: it may be saved into the buffer, others too, and the buffer may go first.
 */
TEST(test_buffer_kept)
{
    for (int kind = 0; kind < CHECKPOINT; kind++) {
        thing t = new_thing(kind, true);
        xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
        xsm_buffer *buffer;
        xsm_storage s = XSM_STORAGE_INIT;
        xsm_model *first = NULL, *second = NULL, *none = NULL;
        size_t size, count;
        unsigned char *bytes = file_of(&t, &size);
        test_hook h; /* whose memory is counted */
        test_hook_start(&h, 1);
        assert_ok(xsm_buffer_new(h.context, &buffer, &err), err);
        assert_ok(xsm_buffer_get_storage(buffer, &s, &err), err);
        assert_ok(xsm_model_save(t.model, NULL, &s, &err), err);
        assert_ok(xsm_buffer_get_storage(buffer, &s, &err), err);
        assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &first, &err), err);
        const void *before = xsm_buffer_bytes(buffer, NULL);
        assert_ok(xsm_model_save(first, NULL, &s, &err), err);
        assert_memory_equal(before, bytes, size); /* which the model keeps */
        assert_memory_equal(xsm_buffer_bytes(buffer, &count), bytes, size);
        /* The storage would read what was there before. */
        assert_fails(xsm_model_load(NULL, NULL, &s, NULL, &none, &err), XSM_ERROR_STATE, err);
        assert_non_null(strstr(err.message, "xsm_buffer_get_storage"));
        assert_ok(xsm_buffer_get_storage(buffer, &s, &err), err);
        assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &second, &err), err);
        s.release = count_release;
        assert_fails(xsm_model_load(NULL, NULL, &s, NULL, &none, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "release()"));
        s.release = NULL;
        o.copy = 1;
        assert_ok(xsm_model_load(NULL, NULL, &s, &o, &none, &err), err);
        xsm_model_free(none);
        const void *last = xsm_buffer_bytes(buffer, NULL);
        xsm_buffer_free(buffer);
        assert_memory_equal(last, bytes, size);
        /* They are as they were. */
        for (int i = 0; i < 2; i++) {
            size_t again;
            const char *path = test_path("kept");
            assert_ok(xsm_model_save(i ? second : first, path, NULL, &err), err);
            unsigned char *saved = test_read(path, &again);
            assert_int_equal(again, size);
            assert_memory_equal(saved, bytes, size);
            free(saved);
        }
        xsm_model_free(first);
        xsm_model_free(second);
        test_hook_end(&h);
        free(bytes);
        free_thing(&t);
    }
    test_files_end();
}

/* Who lends bytes is told once, as soon as none is needed, and not by a call that fails. */
TEST(test_release)
{
    thing t = new_thing(LINEAR, true);
    size_t size;
    int told = 0;
    unsigned char *bytes = file_of(&t, &size);
    xsm_storage s = bytes_storage(bytes, size);
    xsm_parameters w = XSM_PARAMETERS_INIT;
    xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
    xsm_predictor *predictor;
    s.release = count_release;
    s.release_user = &told;
    NEW(xsm_model, m, xsm_model_load(NULL, NULL, &s, NULL, &m, &err));
    assert_ok(xsm_predictor_new(m, NULL, &predictor, &err), err);
    xsm_model_free(m);
    assert_int_equal(told, 0); /* the predictor has a reference */
    xsm_predictor_free(predictor);
    assert_int_equal(told, 1);
    assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &m, &err), err);
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    assert_int_equal(told, 2); /* all is copied */
    memset(bytes, 0, 8);
    xsm_model_free(m);
    assert_int_equal(told, 2);
    m = NULL;
    assert_fails(xsm_model_load(NULL, NULL, &s, NULL, &m, &err), XSM_ERROR_FORMAT, err);
    assert_int_equal(told, 2);
    free(bytes);
    bytes = file_of(&t, &size);
    s.bytes = bytes;
    assert_ok(xsm_model_load(NULL, NULL, &s, NULL, &m, &err), err);
    xsm_model_clear_correction(m);
    assert_ok(xsm_model_grow(m, 12, NULL, &err), err);
    assert_int_equal(told, 3);
    xsm_model_free(m);
    assert_int_equal(told, 3);
    /* What a call needs until it returns is not lent. */
    o.copy = 1;
    assert_fails(xsm_model_load(NULL, NULL, &s, &o, &m, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "release()"));
    for (int kind = CHECKPOINT; kind <= INDEX; kind++) {
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "release()"));
    }
    xsm_label_tree_options tree = XSM_LABEL_TREE_OPTIONS_INIT;
    tree.resume_storage = &s;
    assert_fails(xsm_fit_label_tree(NULL, t.p.data, &tree, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(told, 3);
    free(bytes);
    free_thing(&t);
    test_files_end();
}

TEST(test_in_place)
{
    thing t = new_thing(LINEAR, true);
    size_t size;
    unsigned char *bytes = file_of(&t, &size), *before = malloc(size);
    xsm_storage s = bytes_storage(bytes, size);
    assert_non_null(before);
    memcpy(before, bytes, size);
    for (int copy = 0; copy < 2; copy++) {
        xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
        xsm_parameters_view view = XSM_PARAMETERS_VIEW_INIT;
        xsm_parameters w = XSM_PARAMETERS_INIT;
        o.copy = copy;
        MADE(xsm_model, m, xsm_model_load(NULL, NULL, &s, &o, &m, &err));
        assert_ok(xsm_model_get_view(m, &view, &err), err);
        const unsigned char *weight = view.data;
        assert_int_equal(weight >= bytes && weight < bytes + size, !copy);
        assert_true((uintptr_t)weight % 64 == 0);
        /* Weights are the model's own before they are written. */
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        w.weight[0] += 1;
        assert_memory_equal(bytes, before, size);
    }
    /* A file that was copied may be written into. */
    const char *path = test_file("copied", bytes, size);
    xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
    xsm_model *m;
    o.copy = 1;
    assert_ok(xsm_model_load(NULL, path, NULL, &o, &m, &err), err);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    memset(bytes, 0, size);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    path = test_path("again");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    free(bytes);
    bytes = test_read(path, &size);
    assert_memory_equal(bytes, before, size);
    xsm_model_free(m);
    free(bytes);
    free(before);
    free_thing(&t);
    test_files_end();
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

static void assert_lost_nothing(const disk *d, const unsigned char *bytes, size_t size, const xsm_error *err)
{
    assert_true(d->begins == d->ends && !d->open && d->dropped == 1);
    assert_saved(d, bytes, size);
    assert_non_null(strstr(err->message, "the disk"));
}

TEST(test_failing_writes)
{
    disk *d = new_disk();
    for (int kind = 0; kind < THINGS; kind++) {
        thing t = new_thing(kind, true);
        size_t size;
        unsigned char *bytes = file_of(&t, &size);
        for (int forward = 0; forward < 2; forward++) {
            xsm_storage s = disk_storage(d);
            s.seek = forward ? NULL : s.seek;
            d->step = 13;
            assert_ok(save(&t, &s, &err), err);
            /* All bytes of a save, and the checksum's, once more. */
            const size_t whole = size + (forward ? 0 : 16);
            for (size_t at = 0; at < whole; at += at < whole - 40 ? 1 + at / 20 : 1) {
                d->begins = d->ends = d->dropped = 0;
                d->write_fails = (long)at;
                assert_fails(save(&t, &s, &err), XSM_ERROR_IO, err);
                assert_non_null(strstr(err.message, "write()"));
                assert_lost_nothing(d, bytes, size, &err);
            }
            d->write_fails = NEVER;
            for (long at = 0; at < 2 && !forward; at++) {
                d->begins = d->ends = d->dropped = 0;
                d->seek_fails = at;
                assert_fails(save(&t, &s, &err), XSM_ERROR_IO, err);
                assert_non_null(strstr(err.message, "seek()"));
                assert_lost_nothing(d, bytes, size, &err);
            }
            d->seek_fails = NEVER;
            for (int i = 0; i < 2; i++) {
                d->begins = d->ends = d->dropped = 0;
                d->begin_result = i ? XSM_ERROR_MEMORY : -1;
                assert_fails(save(&t, &s, &err), i ? XSM_ERROR_MEMORY : XSM_ERROR_IO, err);
                assert_non_null(strstr(err.message, "begin()"));
                assert_lost_nothing(d, bytes, size, &err);
            }
            d->begin_result = 0;
            d->end_result = 4;
            assert_fails(save(&t, &s, &err), XSM_ERROR_IO, err);
            assert_non_null(strstr(err.message, "end()"));
            assert_saved(d, bytes, size);
            d->end_result = 0;
            assert_ok(save(&t, &s, &err), err);
            assert_saved(d, bytes, size);
        }
        free(bytes);
        free_thing(&t);
    }
    free(d);
    test_files_end();
}

TEST(test_failing_reads)
{
    HELD_MEMORY(disk, d) = new_disk();
    for (int kind = 0; kind < THINGS; kind++) {
        thing t = new_thing(kind, true);
        xsm_storage s = disk_storage(d);
        assert_ok(save(&t, &s, &err), err);
        const size_t whole = d->saved_end;
        for (size_t at = 0; at < whole; at += at < 40 ? 1 : 1 + at / 10) {
            d->step = 1 + at % 90;
            d->position = 0;
            d->read_fails = (long)at;
            assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_IO, err);
            assert_non_null(strstr(err.message, "the disk"));
            d->read_fails = NEVER;
            d->position = 0;
            d->saved_end = at; /* cut short */
            assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_FORMAT, err);
            assert_non_null(strstr(err.message, "the disk"));
            xsm_storage bytes = bytes_storage(d->saved, at);
            assert_fails(load_again(kind, &bytes, NULL, NULL, &err), XSM_ERROR_FORMAT, err);
            assert_non_null(strstr(err.message, "the bytes"));
            d->saved_end = whole;
        }
        /* One bit is wrong, in place and read. */
        d->saved[whole - 1] ^= 4;
        for (int way = 0; way < 2; way++) {
            xsm_storage from = way ? s : bytes_storage(d->saved, whole);
            d->position = 0;
            assert_fails(load_again(kind, &from, NULL, NULL, &err), XSM_ERROR_CHECKSUM, err);
        }
        free_thing(&t);
    }
}

static int64_t read_too_much(void *user, void *buffer, size_t size)
{
    (void)user;
    (void)buffer;
    return (int64_t)size + 1;
}

/* A header that says that far more follows than does is no reason to take all that memory. */
TEST(test_large_claims)
{
    static const char *const ends[] = {"100000000000", "9223372036854775807", "4000000000000000000"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_model *m = NULL;
        HELD_MEMORY(disk, d) = new_disk();
        xsm_storage s = disk_storage(d);
        const int length =
            snprintf((char *)d->saved + 8, 200,
                     "{\"weight\":{\"dtype\":\"F32\",\"shape\":[5,5],\"data_offsets\":[0,%s]}}", ends[i]);
        d->saved[0] = (unsigned char)length;
        d->saved_end = (size_t)length + 8 + 1000;
        assert_fails(xsm_model_load(ctx, NULL, &s, NULL, &m, &err), XSM_ERROR_FORMAT, err);
        test_memory_end(memory, ctx);
    }
}

TEST(test_arguments)
{
    HELD_MEMORY(disk, d) = new_disk();
    thing t = new_thing(LINEAR, true), u = new_thing(CHECKPOINT, true), v = new_thing(SAMPLER, true),
          w = new_thing(INDEX, true);
    const xsm_storage whole = disk_storage(d);
    const thing *things[] = {&t, &u, &v, &w};
    for (size_t i = 0; i < 4; i++) {
        const int kind = things[i]->kind;
        xsm_storage s = whole;
        assert_fails(save(things[i], NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(load_again(kind, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
        s.write = NULL;
        assert_fails(save(things[i], &s, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "the disk: the storage has no write()"));
        s.name = NULL;
        s.source = &(xsm_source){sizeof(xsm_source), d, NULL};
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "storage: the storage has neither bytes nor a source with read()"));
        s = whole;
        s.bytes = d->saved;
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "bytes and a source"));
        s = bytes_storage(d->saved + 4, 100);
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, "multiple of 8"));
        s = bytes_storage(d->saved, 0);
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_FORMAT, err);
        s = whole;
        s.source = &(xsm_source){sizeof(xsm_source), d, read_too_much};
        assert_fails(load_again(kind, &s, NULL, NULL, &err), XSM_ERROR_IO, err);
        s.size = 8;
        assert_fails(save(things[i], &s, &err), XSM_ERROR_STRUCT_OLD, err);
    }
    assert_int_equal(d->begins, 0);
    xsm_sampler *unbound;
    assert_ok(xsm_sampler_new(NULL, "uniform", &unbound, &err), err);
    assert_fails(xsm_sampler_save(unbound, NULL, &whole, &err), XSM_ERROR_STATE, err);
    xsm_sampler_free(unbound);
    assert_fails(xsm_model_save(NULL, NULL, &whole, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_save(NULL, NULL, &whole, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_checkpoint(NULL, NULL, &whole, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_resume(NULL, NULL, &whole, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_load(NULL, NULL, &whole, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_sampler_load(NULL, NULL, &whole, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_save(NULL, NULL, &whole, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_load(NULL, NULL, &whole, NULL, w.model, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_index *none = NULL;
    assert_fails(xsm_index_load(NULL, NULL, &whole, NULL, NULL, &none, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_index_load_rows(NULL, NULL, &whole, NULL, NULL, &none, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_buffer_new(NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_buffer_get_storage(NULL, &(xsm_storage)XSM_STORAGE_INIT, &err), XSM_ERROR_ARGUMENT, err);
    free_thing(&t);
    free_thing(&u);
    free_thing(&v);
    free_thing(&w);
}

/* Saves to a buffer, loads from it in place, copied, and through a source. */
static xsm_status round_trip(void *state, xsm_context *ctx, xsm_error *err)
{
    disk *d = state;
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    xsm_storage s = XSM_STORAGE_INIT;
    xsm_buffer *buffer = NULL;
    HELD(xsm_model, m) = NULL;
    o.bias = 1;
    xsm_status status = xsm_model_new_linear(ctx, 100, 2000, &o, &m, err);
    status = status == XSM_OK ? xsm_buffer_new(ctx, &buffer, err) : status;
    for (int forward = 0; forward < 2 && status == XSM_OK; forward++) {
        status = xsm_buffer_get_storage(buffer, &s, err);
        s.seek = forward ? NULL : s.seek;
        status = status == XSM_OK ? xsm_model_save(m, NULL, &s, err) : status;
    }
    for (int way = 0; way < 3 && status == XSM_OK; way++) {
        xsm_load_options how = XSM_LOAD_OPTIONS_INIT;
        HELD(xsm_model, loaded) = NULL;
        how.copy = way == 1;
        status = xsm_buffer_get_storage(buffer, &s, err);
        if (way == 2 && status == XSM_OK) {
            d->position = 0;
            d->saved_end = s.byte_count < ROOM ? (size_t)s.byte_count : ROOM;
            memcpy(d->saved, s.bytes, d->saved_end);
            s = disk_storage(d);
        }
        status = status == XSM_OK ? xsm_model_load(ctx, NULL, &s, &how, &loaded, err) : status;
    }
    xsm_buffer_free(buffer);
    return status;
}

TEST(test_without_memory)
{
    HELD_MEMORY(disk, d) = new_disk();
    assert_true(test_every_allocation(round_trip, d) > 10);
}

TEST(test_cancelled)
{
    HELD_MEMORY(disk, d) = new_disk();
    test_every_poll(round_trip, d, 1, 5, "saving,loading");
}

/* -- label trees --------------------------------------------------------------------------------------------------- */

/* A fit that is cancelled again and again, each time resumed from the buffer that it goes on writing to. */
TEST(test_label_trees)
{
    test_problem p = test_problem_new(150, 20, 60, true, 3);
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    xsm_buffer *buffer;
    xsm_model *m = NULL;
    size_t size, stopped = 0;
    o.arity = 3;
    o.leaf = 5;
    o.trees = 2;
    o.negatives = 2;
    o.checkpoint_every = 1e-9;
    assert_ok(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), err);
    const char *path = test_path("tree");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    unsigned char *want = test_read(path, &size);
    xsm_model_free(m);
    assert_ok(xsm_buffer_new(NULL, &buffer, &err), err);
    xsm_storage to = XSM_STORAGE_INIT, from = XSM_STORAGE_INIT;
    o.checkpoint_storage = &to;
    for (size_t poll = 200;; poll += 20) {
        test_hook h;
        test_hook_start(&h, 1);
        test_hook_cancel(&h, poll);
        assert_ok(xsm_buffer_get_storage(buffer, &to, &err), err);
        from = to;
        o.resume_storage = xsm_buffer_bytes(buffer, NULL) ? &from : NULL;
        m = NULL;
        const xsm_status status = xsm_fit_label_tree(h.context, p.data, &o, &m, NULL, &err);
        if (status == XSM_OK) {
            path = test_path("resumed");
            assert_ok(xsm_model_save(m, path, NULL, &err), err);
            xsm_model_free(m);
            test_hook_end(&h);
            break;
        }
        test_hook_end(&h);
        assert_int_equal(status, XSM_CANCELLED);
        stopped++;
    }
    assert_true(stopped > 3);
    size_t again;
    unsigned char *bytes = test_read(path, &again);
    assert_int_equal(again, size);
    assert_memory_equal(bytes, want, size);
    free(bytes);
    free(want);
    /* The first checkpoint that fails ends the fit, a later one is in the result. */
    disk *d = new_disk();
    to = disk_storage(d);
    o.resume_storage = NULL;
    d->begin_result = -1;
    assert_fails(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "the disk"));
    d->begin_result = 0;
    d->write_fails = 20000;
    xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
    assert_ok(xsm_fit_label_tree(NULL, p.data, &o, &m, &result, &err), err);
    xsm_model_free(m);
    assert_int_equal(result.checkpoint, XSM_ERROR_IO);
    assert_true(result.checkpoints > 0 && d->dropped > 0 && d->begins == d->ends);
    o.checkpoint = "somewhere";
    assert_fails(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    o.checkpoint = NULL;
    o.checkpoint_storage = NULL;
    o.resume = "somewhere";
    o.resume_storage = &from;
    assert_fails(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    free(d);
    xsm_buffer_free(buffer);
    test_problem_free(&p);
    test_files_end();
}
