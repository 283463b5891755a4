/* Helpers of the tests. */
#include "support.h"

#include "base/activity.h"
#include "kernels/kernels.h"

#include <ftw.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- the machine and its locale ----------------------------------------------------------------------------------- */

/* Linked in place of the library's, which is __real_ (see meson.build): contexts of every kind ask it. */
const xsmi_kernels *__real_xsmi_kernels_select(uint32_t disabled);
const xsmi_kernels *__wrap_xsmi_kernels_select(uint32_t disabled);
const xsmi_kernels *__wrap_xsmi_kernels_select(uint32_t disabled)
{
    const char *mask = getenv("XSM_TEST_CPU_DISABLE");
    return __real_xsmi_kernels_select(disabled | (mask ? (uint32_t)strtoul(mask, NULL, 0) : 0));
}

/* As programs with a user interface do: the library's numbers must not change. */
__attribute__((constructor)) static void take_locale(void)
{
    setlocale(LC_ALL, "");
}

/* -- memory ------------------------------------------------------------------------------------------------------- */

typedef struct block {
    void *memory;
    size_t size, alignment;
} block;

struct test_memory {
    pthread_mutex_t lock;
    block *blocks;
    size_t count, capacity, bytes;
    size_t calls, fail_at;
    size_t own_blocks, own_bytes; /* the context's */
};

/* A failed check may be on any thread, so it ends the program instead of the test. */
static void give_up(const char *what, size_t a, size_t b)
{
    fprintf(stderr, "test allocator: %s (%zu, %zu)\n", what, a, b);
    abort();
}

static void *allocate(void *user, size_t size, size_t alignment)
{
    test_memory *m = user;
    void *memory = NULL;
    pthread_mutex_lock(&m->lock);
    m->calls++;
    if (m->calls != m->fail_at) {
        if (size == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (size_t)2 << 20) {
            give_up("a size or alignment that the contract excludes", size, alignment);
        }
        if (m->count == m->capacity) {
            m->capacity = m->capacity ? m->capacity * 2 : 64;
            m->blocks = realloc(m->blocks, m->capacity * sizeof *m->blocks);
        }
        if (m->blocks && posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, size) == 0) {
            memset(memory, 0xA5, size);
            m->blocks[m->count++] = (block){memory, size, alignment};
            m->bytes += size;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return memory;
}

static void release(void *user, void *memory, size_t size, size_t alignment)
{
    test_memory *m = user;
    pthread_mutex_lock(&m->lock);
    size_t i = m->count;
    while (i > 0 && m->blocks[i - 1].memory != memory) {
        i--;
    }
    if (i == 0) {
        give_up("memory given back that is not out", size, alignment);
    }
    block *b = &m->blocks[i - 1];
    if (b->size != size || b->alignment != alignment) {
        give_up("memory given back with another size than it was taken with", b->size, size);
    }
    memset(memory, 0x5A, size);
    free(memory);
    m->bytes -= size;
    *b = m->blocks[--m->count];
    pthread_mutex_unlock(&m->lock);
}

static xsm_context *hooked_context(test_memory **memory, uint32_t threads, xsm_activity_hook hook, void *user)
{
    test_memory *m = calloc(1, sizeof *m);
    assert_non_null(m);
    pthread_mutex_init(&m->lock, NULL);
    xsm_allocator allocator = {sizeof allocator, m, allocate, release};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.allocator = &allocator;
    options.threads = threads;
    options.progress = hook;
    options.progress_user = user;
    xsm_context *ctx = NULL;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    m->own_blocks = m->count;
    m->own_bytes = m->bytes;
    m->calls = 0;
    *memory = m;
    return ctx;
}

xsm_context *test_memory_context(test_memory **memory, uint32_t threads)
{
    return hooked_context(memory, threads, NULL, NULL);
}

size_t test_memory_blocks(test_memory *m)
{
    return m->count - m->own_blocks;
}

size_t test_memory_bytes(test_memory *m)
{
    return m->bytes - m->own_bytes;
}

size_t test_memory_calls(test_memory *m)
{
    return m->calls;
}

void test_memory_fail(test_memory *m, size_t k)
{
    m->calls = 0;
    m->fail_at = k;
}

void test_memory_end(test_memory *m, xsm_context *ctx)
{
    xsm_context_free(ctx);
    size_t left = m->count;
    free(m->blocks);
    pthread_mutex_destroy(&m->lock);
    free(m);
    assert_int_equal(left, 0);
}

size_t test_every_allocation(test_body body, void *state)
{
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 1);
    for (size_t k = 1;; k += 1 + (test_full() ? 0 : k / 16)) {
        xsm_error err = XSM_ERROR_INIT;
        test_memory_fail(m, k);
        xsm_status status = body(state, ctx, &err);
        bool refused = test_memory_calls(m) >= k;
        if (test_memory_blocks(m) != 0) {
            fail_msg("%zu blocks are left after allocation %zu was refused (%s)", test_memory_blocks(m), k,
                     err.message);
        }
        if (status != XSM_OK && (!refused || status != XSM_ERROR_MEMORY || err.status != status || !err.message[0])) {
            fail_msg("with allocation %zu refused: %s: %s", k, xsm_status_name(status), err.message);
        }
        if (!refused) {
            test_memory_end(m, ctx);
            return k;
        }
    }
}

/* -- cancelling --------------------------------------------------------------------------------------------------- */

static int32_t see_poll(void *user, const xsm_activity *activity)
{
    test_hook *h = user;
    if (activity->size != sizeof *activity || !activity->phase[0] || !activity->unit[0] || activity->seconds < 0 ||
        (activity->total > 0 && activity->done > activity->total)) {
        give_up("an activity that the contract excludes", activity->done, activity->total);
    }
    if (!strstr(h->phases, activity->phase) && strlen(h->phases) + strlen(activity->phase) + 3 < sizeof h->phases) {
        strcat(strcat(h->phases, h->phases[0] ? ", " : ""), activity->phase);
    }
    return ++h->calls == h->cancel_at;
}

void test_hook_start(test_hook *h, uint32_t threads)
{
    memset(h, 0, sizeof *h);
    h->context = hooked_context(&h->memory, threads, see_poll, h);
    xsmi_set_pace(h->context, 0);
}

void test_hook_cancel(test_hook *h, size_t k)
{
    h->calls = 0;
    h->cancel_at = k;
}

void test_hook_end(test_hook *h)
{
    test_memory_end(h->memory, h->context);
}

void test_every_poll(test_body body, void *state, uint32_t threads, size_t least, const char *phases)
{
    test_hook h;
    size_t runs = 0;
    test_hook_start(&h, threads);
    for (size_t k = 1;; k *= 2) {
        xsm_error err = XSM_ERROR_INIT;
        test_hook_cancel(&h, k);
        xsm_status status = body(state, h.context, &err);
        bool cancelled = h.calls >= k;
        if (test_memory_blocks(h.memory) != 0) {
            fail_msg("%zu blocks are left after poll %zu cancelled (%s)", test_memory_blocks(h.memory), k, err.message);
        }
        if (status != (cancelled ? XSM_CANCELLED : XSM_OK) ||
            (cancelled && strncmp(err.message, "cancelled", 9) != 0)) {
            fail_msg("cancelled at poll %zu of %zu: %s: %s", k, h.calls, xsm_status_name(status), err.message);
        }
        if (!cancelled) {
            break;
        }
        runs++;
    }
    if (threads == 1 && runs < least) {
        fail_msg("it was cancelled at %zu polls only", runs);
    }
    for (const char *at = phases; threads == 1 && *at;) {
        char name[64];
        size_t length = strcspn(at, ",");
        assert_true(length < sizeof name);
        memcpy(name, at, length);
        name[length] = '\0';
        if (!strstr(h.phases, name)) {
            fail_msg("the hook saw \"%s\", but not \"%s\"", h.phases, name);
        }
        at += length;
        at += strspn(at, ", ");
    }
    test_hook_end(&h);
}

/* -- bytes -------------------------------------------------------------------------------------------------------- */

static int64_t read_bytes(void *user, void *buffer, size_t size)
{
    test_bytes *b = user;
    if (b->position >= b->fail_at) {
        return -1;
    }
    size_t count = b->size - b->position;
    count = count < size ? count : size;
    count = b->step > 0 && b->step < count ? b->step : count;
    if (count > b->fail_at - b->position) {
        count = b->fail_at - b->position;
    }
    if (count > 0) {
        memcpy(buffer, (const char *)b->data + b->position, count);
    }
    b->position += count;
    return (int64_t)count;
}

xsm_source test_source(test_bytes *bytes)
{
    xsm_source source = {sizeof source, bytes, read_bytes};
    return source;
}

static char folder[64];
static char paths[8][256];
static unsigned next_path;

const char *test_path(const char *name)
{
    if (!folder[0]) {
        strcpy(folder, "/tmp/xsoftmax-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    char *path = paths[next_path++ % (sizeof paths / sizeof *paths)];
    assert_true(snprintf(path, sizeof paths[0], "%s/%s", folder, name) < (int)sizeof paths[0]);
    return path;
}

const char *test_file(const char *name, const void *data, size_t size)
{
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

unsigned char *test_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long end = ftell(file);
    assert_true(end >= 0);
    rewind(file);
    *size = (size_t)end;
    unsigned char *bytes = aligned_alloc(64, (*size + 128) / 64 * 64);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void test_assert_bytes(const char *path, const void *wanted, size_t size)
{
    size_t found;
    unsigned char *bytes = test_read(path, &found);
    assert_int_equal(found, size);
    assert_memory_equal(bytes, wanted, size);
    free(bytes);
}

void test_assert_same_file(const char *path, const char *wanted)
{
    size_t size;
    unsigned char *bytes = test_read(wanted, &size);
    test_assert_bytes(path, bytes, size);
    free(bytes);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)type;
    (void)place;
    return remove(path);
}

void test_files_end(void)
{
    if (folder[0]) {
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        folder[0] = '\0';
    }
}

int test_files_teardown(void **state)
{
    (void)state;
    test_files_end();
    return 0;
}

bool test_full(void)
{
    return getenv("XSM_TEST_FULL") != NULL;
}

void test_left_out(void **state)
{
    (void)state;
    print_message("left to XSM_TEST_FULL=1\n");
    skip();
}

uint64_t test_next_place(uint64_t at, uint64_t step)
{
    const uint64_t least = 1 + at / 4;
    return at + (test_full() ? step : 2 * step > least ? 2 * step : least);
}

bool test_has_lbfgs(void)
{
#ifdef TEST_LBFGS
    return true;
#else
    return false;
#endif
}

/* -- real data ---------------------------------------------------------------------------------------------------- */

const char *test_data(const char *file)
{
    static char path[4096];
    const char *where = getenv("XSM_DATA");
    int length = where && where[0] ? snprintf(path, sizeof path, "%s/%s", where, file)
                                   : snprintf(path, sizeof path, "%s/../shared/data/%s", TEST_SOURCE_ROOT, file);
    if (length >= (int)sizeof path || access(path, R_OK) != 0) {
        print_message("no real data at %s (set XSM_DATA): skipped\n", path);
        return NULL;
    }
#ifndef TEST_ZLIB
    if (strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".gz") == 0) {
        print_message("%s is compressed, and this build reads no gzip: skipped\n", path);
        return NULL;
    }
#endif
    return path;
}
