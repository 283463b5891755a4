/* Memory that fails on demand, and options as texts, for the conformance suites. */
#include "check/failures.h"
#include "base/context.h"
#include "base/order.h"

#include <string.h>

/* The header of each block, by which blocks still in use can be released at the end. */
typedef struct xsmi_trial_block {
    struct xsmi_trial_block *next, *before;
    size_t size, offset; /* from the start of the memory to the pointer returned */
} xsmi_trial_block;

static void lock(xsmi_trial *t)
{
    while (atomic_flag_test_and_set_explicit(&t->busy, memory_order_acquire)) {
    }
}

static void unlock(xsmi_trial *t)
{
    atomic_flag_clear_explicit(&t->busy, memory_order_release);
}

static void *trial_allocate(void *user, size_t size, size_t alignment)
{
    xsmi_trial *t = user;
    size_t call = atomic_fetch_add(&t->calls, 1) + 1;
    size_t offset = XSMI_MAX(alignment, XSMI_ALIGNMENT), total;
    if (call == atomic_load(&t->fail_at) || !xsmi_add(size, offset, &total)) {
        return NULL;
    }
    /* Only blocks of a huge page and more have a larger alignment, and the parent aligns them too. */
    unsigned char *memory = xsmi_allocate(t->parent, total, 1);
    if (!memory) {
        return NULL;
    }
    memset(memory + offset, t->junk, size);
    xsmi_trial_block *block = (xsmi_trial_block *)(void *)(memory + offset - sizeof(xsmi_trial_block));
    *block = (xsmi_trial_block){NULL, NULL, size, offset};
    lock(t);
    block->next = t->list;
    if (t->list) {
        t->list->before = block;
    }
    t->list = block;
    unlock(t);
    atomic_fetch_add(&t->blocks, 1);
    return memory + offset;
}

static void trial_release(void *user, void *memory, size_t size, size_t alignment)
{
    xsmi_trial *t = user;
    xsmi_trial_block *block = (xsmi_trial_block *)memory - 1;
    (void)size;
    (void)alignment;
    lock(t);
    if (block->next) {
        block->next->before = block->before;
    }
    if (block->before) {
        block->before->next = block->next;
    } else {
        t->list = block->next;
    }
    unlock(t);
    atomic_fetch_sub(&t->blocks, 1);
    size_t offset = block->offset;
    xsmi_release(t->parent, (unsigned char *)memory - offset, block->size + offset, 1);
}

static int32_t ask_parent(void *user, const xsm_activity *now)
{
    (void)now;
    return xsmi_poll(user);
}

xsm_status xsmi_trial_child(xsm_context *parent, xsm_context_options *options, xsm_context **out, xsm_error *err)
{
    options->progress = parent->progress ? ask_parent : NULL;
    options->progress_user = parent;
    XSMI_TRY(xsm_context_new(options, out, err));
    xsmi_set_pace(*out, parent->pace);
    return XSM_OK;
}

xsm_status xsmi_trial_context(xsmi_trial *t, xsm_context *parent, uint32_t threads, unsigned char junk,
                              xsm_context **out, xsm_error *err)
{
    t->parent = parent;
    t->junk = junk;
    atomic_init(&t->calls, 0);
    atomic_init(&t->fail_at, 0);
    atomic_init(&t->blocks, 0);
    atomic_flag_clear(&t->busy);
    t->list = NULL;
    xsm_allocator allocator = {sizeof allocator, t, trial_allocate, trial_release};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.allocator = &allocator;
    options.threads = threads;
    XSMI_TRY(xsmi_trial_child(parent, &options, out, err));
    t->own = atomic_load(&t->blocks);
    xsmi_begin(&t->activity, *out, "trying", "parts", 0);
    return XSM_OK;
}

size_t xsmi_trial_blocks(xsmi_trial *t)
{
    return atomic_load(&t->blocks) - t->own;
}

void xsmi_trial_end(xsmi_trial *t, xsm_context *ctx)
{
    if (!ctx) {
        return; /* it was not made, and `t` has nothing */
    }
    (void)xsmi_end(&t->activity, XSM_OK, NULL);
    xsm_context_free(ctx);
    while (t->list) {
        trial_release(t, t->list + 1, 0, 0);
    }
}

xsm_status xsmi_trial_allocations(xsm_context *parent, xsmi_trial_body body, void *state, const char *who,
                                  xsm_error *err)
{
    for (size_t k = 1;; k++) {
        xsmi_trial trial;
        xsm_context *ctx;
        xsm_error said = XSM_ERROR_INIT;
        XSMI_TRY(xsmi_trial_context(&trial, parent, 1, 0x5a, &ctx, err));
        atomic_store(&trial.calls, 0);
        atomic_store(&trial.fail_at, k);
        xsm_status status = body(state, ctx, &said);
        bool refused = atomic_load(&trial.calls) >= k;
        size_t left = xsmi_trial_blocks(&trial);
        bool stopped = xsmi_is_cancelled(ctx);
        xsmi_trial_end(&trial, ctx);
        if (stopped) {
            return xsmi_fail_cancelled(parent, err);
        }
        if (left != 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: %zu blocks of memory are left behind when allocation %zu fails",
                             who, left, k);
        }
        if (refused && status != XSM_OK && status != XSM_ERROR_MEMORY) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: allocation %zu fails, and the status is %s instead of %s", who,
                             k, xsm_status_name(status), xsm_status_name(XSM_ERROR_MEMORY));
        }
        if (!refused) {
            return status == XSM_OK ? XSM_OK : xsmi_fail_copy(err, &said);
        }
    }
}

xsm_status xsmi_trial_status(xsmi_activity *activity, const xsm_context *ctx, xsm_status status, xsm_error *err)
{
    if (status != XSM_OK && xsmi_is_cancelled(ctx)) {
        status = xsmi_fail_cancelled(ctx, err);
    }
    return xsmi_end(activity, status, err);
}

xsm_status xsmi_trial_set(xsm_context *ctx, const char *const *set, xsmi_trial_setter setter, void *object,
                          xsm_error *err)
{
    for (; set && *set; set++) {
        const char *equals = strchr(*set, '=');
        if (!equals || equals == *set) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "'%s' is not of the form name=value", *set);
        }
        char *name = xsmi_copy_text(ctx, *set, (size_t)(equals - *set));
        if (!name) {
            return xsmi_fail_memory(err, (size_t)(equals - *set), "the name of an option");
        }
        xsm_status status = setter(object, name, equals + 1, err);
        xsmi_release_text(ctx, name);
        XSMI_TRY(status);
    }
    return XSM_OK;
}
