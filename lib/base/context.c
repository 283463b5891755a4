/*
 * Contexts: the host's memory, threads and log, and the kernel table for this machine.
 *
 * A context counts its references, so that objects may outlive the caller's reference.
 */
#include "base/base.h"
#include "base/context.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/pool.h"
#include "base/system.h"

#include <stdarg.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/context.h>

#define THREADS_MAX 4096
#define HUGE_PAGE ((size_t)2 << 20)
/* Seconds from one call of the host's hook to the next. */
#define PACE 0.05

static void *default_allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    if (alignment < sizeof(void *)) {
        alignment = sizeof(void *);
    }
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static void default_release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

static void release_context(xsm_context *ctx, const xsm_allocator *allocator)
{
    if (ctx->progress) {
        pthread_key_delete(ctx->key);
    }
    XSMI_CALL_HOST(allocator->release(allocator->user, ctx, sizeof *ctx, XSMI_ALIGNMENT));
}

xsm_status xsm_context_new(const xsm_context_options *options, xsm_context **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {out, "out"});
    xsm_context_options o = XSM_CONTEXT_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_context_options, &o, options, err));
    xsm_allocator allocator = {sizeof allocator, NULL, default_allocate, default_release};
    if (o.allocator) {
        XSMI_TRY(XSMI_READ(xsm_allocator, &allocator, o.allocator, err));
        if (!allocator.allocate || !allocator.release) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "an allocator needs both allocate() and release()");
        }
    }
    xsm_runner runner = {sizeof runner, NULL, 1, 0, NULL};
    if (o.runner) {
        XSMI_TRY(XSMI_READ(xsm_runner, &runner, o.runner, err));
        if (!runner.run || runner.threads == 0) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "a runner needs run() and at least one thread");
        }
        XSMI_TRY(XSMI_CHECK_ZERO(xsm_runner, &runner, reserved, err));
    } else {
        uint32_t processors = xsmi_processors();
        runner.threads = o.threads ? o.threads : XSMI_MIN(processors, THREADS_MAX);
    }
    if (runner.threads > THREADS_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u threads asked for; at most %d are supported", runner.threads,
                         THREADS_MAX);
    }
    const uint32_t all_sets = XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_NEON;
    if (o.cpu_disable & ~all_sets) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "cpu_disable has bits 0x%x that name no instruction set",
                         o.cpu_disable & ~all_sets);
    }
    xsmi_group group;
    XSMI_TRY(xsmi_group_read(o.comm, &group, err));
    xsm_context *ctx;
    XSMI_CALL_HOST(ctx = allocator.allocate(allocator.user, sizeof *ctx, XSMI_ALIGNMENT));
    if (!ctx) {
        return xsmi_fail_memory(err, sizeof *ctx, "a context");
    }
    memset(ctx, 0, sizeof *ctx); /* ctx->shield becomes an activity without a context */
    if (o.progress && pthread_key_create(&ctx->key, NULL) != 0) {
        XSMI_CALL_HOST(allocator.release(allocator.user, ctx, sizeof *ctx, XSMI_ALIGNMENT));
        return xsmi_fail(err, XSM_ERROR_LIMIT, "progress() needs a key of the threads library; all %d are in use",
                         (int)PTHREAD_KEYS_MAX);
    }
    ctx->progress = o.progress;
    ctx->progress_user = o.progress_user;
    ctx->pace = PACE;
    if (!runner.run && runner.threads > 1) {
        xsm_status status = xsmi_pool_new(&allocator, runner.threads, &ctx->pool, err);
        if (status != XSM_OK) {
            release_context(ctx, &allocator);
            return status;
        }
    }
    xsmi_holders_start(&ctx->holders);
    ctx->allocator = allocator;
    ctx->log = o.log;
    ctx->log_user = o.log_user;
    ctx->release = o.release;
    ctx->release_user = o.release_user;
    ctx->runner = runner;
    ctx->group = group;
    /* No processor has AVX-512 without AVX2, so that disabling AVX2 disables AVX-512 too. */
    uint32_t without = o.cpu_disable & XSM_CPU_DISABLE_AVX2 ? o.cpu_disable | XSM_CPU_DISABLE_AVX512 : o.cpu_disable;
    ctx->kernels = xsmi_kernels_select(without);
    *out = ctx;
    return XSM_OK;
}

xsm_context *xsm_context_ref(const xsm_context *context)
{
    xsm_context *own = (xsm_context *)(uintptr_t)context; /* the count is no part of the contents */
    return own ? xsmi_context_retain(own) : NULL;
}

void xsm_context_free(xsm_context *ctx)
{
    if (ctx && xsmi_holders_drop(&ctx->holders)) {
        xsm_allocator allocator = ctx->allocator;
        xsm_release_hook release = ctx->release;
        void *release_user = ctx->release_user;
        xsmi_pool_free(ctx->pool);
        release_context(ctx, &allocator);
        if (release) {
            XSMI_CALL_HOST(release(release_user));
        }
    }
}

xsm_context *xsmi_context_retain(xsm_context *ctx)
{
    xsmi_holders_add(&ctx->holders);
    return ctx;
}

xsm_status xsmi_context_acquire(xsm_context *ctx, xsm_context **out, xsm_error *err)
{
    if (!ctx) {
        return xsm_context_new(NULL, out, err);
    }
    *out = xsmi_context_retain(ctx);
    return XSM_OK;
}

xsm_status xsmi_struct_new(xsm_context *ctx, void *object, size_t size, const char *what, xsm_error *err)
{
    void *made;
    XSMI_TRY(xsmi_array_new(ctx, &made, 1, size, what, err));
    memset(made, 0, size);
    memcpy(object, &made, sizeof made);
    return XSM_OK;
}

xsm_status xsmi_object_new(xsm_context *context, void *object, size_t size, size_t at, const char *what, xsm_error *err)
{
    char *made;
    XSMI_TRY(xsmi_context_acquire(context, &context, err));
    const xsm_status status = xsmi_struct_new(context, &made, size, what, err);
    if (status != XSM_OK) {
        xsm_context_free(context);
        return status;
    }
    memcpy(made + at, &context, sizeof context);
    memcpy(object, &made, sizeof made);
    return XSM_OK;
}

void xsmi_object_free(void *object, size_t size, size_t at)
{
    xsm_context *context;
    memcpy(&context, (char *)object + at, sizeof context);
    xsmi_release(context, object, 1, size);
    xsm_context_free(context);
}

uint32_t xsmi_context_threads(const xsm_context *ctx)
{
    return ctx->runner.threads;
}

xsm_status xsm_context_get_info(const xsm_context *ctx, xsm_context_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {ctx, "the context"});
    xsm_context_info known = XSM_CONTEXT_INFO_INIT;
    known.instruction_set = ctx->kernels->name;
    known.threads = ctx->runner.threads;
    return XSMI_WRITE(xsm_context_info, &known, info, err);
}

const xsmi_kernels *xsmi_context_kernels(const xsm_context *ctx)
{
    return ctx->kernels;
}

void xsmi_log(const xsm_context *ctx, int32_t level, const char *format, ...)
{
    if (!ctx->log) {
        return;
    }
    char message[1024];
    va_list args;
    va_start(args, format);
    xsmi_format_line(message, sizeof message, format, args);
    va_end(args);
    XSMI_CALL_HOST(ctx->log(ctx->log_user, level, message));
}

/* -- memory ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_check_dimensions(uint64_t features, uint64_t classes, xsm_error *err)
{
    const uint64_t most = SIZE_MAX > UINT32_MAX ? UINT32_MAX : UINT32_C(1) << 24;
    if (features <= most && classes <= most) {
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu classes of %llu features: a process of %zu bits takes at most %llu",
                     (unsigned long long)classes, (unsigned long long)features, 8 * sizeof(size_t),
                     (unsigned long long)most);
}

static size_t alignment_for(size_t bytes)
{
    return bytes >= HUGE_PAGE ? HUGE_PAGE : XSMI_ALIGNMENT;
}

static void *allocate_bytes(xsm_context *ctx, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    size_t alignment = alignment_for(bytes);
    size_t size = bytes ? bytes : 1;
    void *memory;
    XSMI_CALL_HOST(memory = ctx->allocator.allocate(ctx->allocator.user, size, alignment));
    if (memory && bytes >= HUGE_PAGE) {
        /* Random rows of a large matrix would otherwise miss the TLB each time. This is advice only; a refusal does no
         * harm. */
        xsmi_advise_huge(memory, bytes & ~(HUGE_PAGE - 1));
    }
    return memory;
}

void *xsmi_allocate(xsm_context *ctx, uint64_t count, size_t each)
{
    size_t bytes;
    return xsmi_multiply(count, each, &bytes) ? allocate_bytes(ctx, bytes) : NULL;
}

xsm_status xsmi_array_new(xsm_context *ctx, void *array, uint64_t count, size_t each, const char *what, xsm_error *err)
{
    void *memory = xsmi_allocate(ctx, count, each);
    memcpy(array, &memory, sizeof memory);
    return memory ? XSM_OK : xsmi_fail_memory(err, count * each, what);
}

bool xsmi_reserve(xsm_context *ctx, void *array, size_t *capacity, uint64_t count, size_t each)
{
    if (count <= *capacity) {
        return true;
    }
    void *larger = xsmi_allocate(ctx, count, each), **at = array;
    if (!larger) {
        return false;
    }
    xsmi_release(ctx, *at, *capacity, each);
    *at = larger;
    *capacity = (size_t)count;
    return true;
}

/* The most arrays of xsmi_reserve_all(). */
enum { ARRAYS_MOST = 8 };

/* Replaces the array's block and returns the old one. */
static void *exchange(const xsmi_array_ref *a, void *block)
{
    void *old;
    memcpy(&old, a->pointer, sizeof old);
    memcpy(a->pointer, &block, sizeof block);
    return old;
}

bool xsmi_reserve_all(xsm_context *ctx, const xsmi_array_ref *arrays, size_t *capacity, uint64_t count)
{
    void *larger[ARRAYS_MOST];
    size_t made = 0;
    if (count <= *capacity) {
        return true;
    }
    for (; arrays[made].pointer; made++) {
        larger[made] = xsmi_allocate(ctx, count, arrays[made].each);
        if (!larger[made]) {
            while (made-- > 0) {
                xsmi_release(ctx, larger[made], (size_t)count, arrays[made].each);
            }
            return false;
        }
    }
    for (size_t i = 0; i < made; i++) {
        xsmi_release(ctx, exchange(&arrays[i], larger[i]), *capacity, arrays[i].each);
    }
    *capacity = (size_t)count;
    return true;
}

void xsmi_release_all(xsm_context *ctx, const xsmi_array_ref *arrays, size_t *capacity)
{
    for (size_t i = 0; arrays[i].pointer; i++) {
        xsmi_release(ctx, exchange(&arrays[i], NULL), *capacity, arrays[i].each);
    }
    *capacity = 0;
}

/* Bytes of a large block that are copied between two polls. */
#define COPY_PIECE ((size_t)8 << 20)

void *xsmi_reallocate(xsm_context *ctx, void *memory, size_t old_count, uint64_t new_count, size_t each)
{
    void *grown = xsmi_allocate(ctx, new_count, each);
    if (grown && memory) {
        const size_t bytes = (size_t)XSMI_MIN(old_count, new_count) * each;
        for (size_t at = 0; at < bytes; at += COPY_PIECE) {
            const size_t left = bytes - at;
            memcpy((char *)grown + at, (const char *)memory + at, XSMI_MIN(left, COPY_PIECE));
            if (left > COPY_PIECE && xsmi_poll(ctx)) {
                xsmi_release(ctx, grown, (size_t)new_count, each);
                return NULL;
            }
        }
        xsmi_release(ctx, memory, old_count, each);
    }
    return grown;
}

void xsmi_release(xsm_context *ctx, void *memory, size_t count, size_t each)
{
    if (memory) {
        size_t bytes = count * each;
        XSMI_CALL_HOST(ctx->allocator.release(ctx->allocator.user, memory, bytes ? bytes : 1, alignment_for(bytes)));
    }
}

char *xsmi_copy_text(xsm_context *ctx, const char *text, size_t length)
{
    if (length == SIZE_MAX) {
        return NULL;
    }
    char *copy = xsmi_allocate(ctx, length + 1, 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

void xsmi_release_text(xsm_context *ctx, char *text)
{
    if (text) {
        xsmi_release(ctx, text, strlen(text) + 1, 1);
    }
}

void *xsm_context_allocate(xsm_context *ctx, size_t size)
{
    return ctx ? xsmi_allocate(ctx, size, 1) : NULL;
}

void xsm_context_release(xsm_context *ctx, void *memory, size_t size)
{
    if (ctx) {
        xsmi_release(ctx, memory, size, 1);
    }
}
