#include "ranks/same.h"

#include "base/activity.h"
#include "base/hash.h"
#include "ranks/comm.h"

#include <string.h>

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Computes a hash of the rows, which can be cancelled. */
static xsm_status find_hash(const xsm_dataset *d, uint64_t (*find)(const xsm_dataset *d), uint64_t *hash,
                            xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "comparing rows", "rows", d->rows);
    *hash = find(d);
    return xsmi_end(&activity, xsmi_go_on(d->context, err), err);
}

static xsm_status check_same(xsm_context *ctx, const xsm_dataset *d, uint64_t (*find)(const xsm_dataset *d),
                             xsm_error *err)
{
    uint64_t hash = 0;
    if (!ctx) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_agree(ctx, find_hash(d, find, &hash, err), err)); /* also agrees with a process that has failed
                                                                       before */
    return xsmi_agree_same(ctx, XSM_OK, hash, XSM_ERROR_DATA,
                           "the dataset is not that of rank 0; all processes must read the same rows", err);
}

xsm_status xsmi_check_same_rows(xsm_context *ctx, const xsm_dataset *d, xsm_error *err)
{
    return check_same(ctx, d, xsmi_dataset_fingerprint, err);
}

xsm_status xsmi_check_same_labels(xsm_context *ctx, const xsm_dataset *d, xsm_error *err)
{
    return check_same(ctx, d, xsmi_dataset_hash_labels, err);
}

xsm_status xsmi_check_same_batch(xsm_context *ctx, const xsm_batch *batch, uint64_t asked, xsm_status status,
                                 xsm_error *err)
{
    uint64_t hash = asked;
    if (ctx && status == XSM_OK && !batch->values) {
        status = find_hash(batch->dataset, xsmi_dataset_fingerprint, &hash, err);
        hash += asked;
        hash = batch->rows ? xsmi_hash(batch->rows, (size_t)batch->count * sizeof *batch->rows, hash)
                           : xsmi_hash(&batch->first, sizeof batch->first, hash);
    }
    return xsmi_agree_same(
        ctx, status, xsmi_hash(&batch->count, sizeof batch->count, hash), XSM_ERROR_DATA,
        "the rows are not those of rank 0, or what is asked of them (classes, lists, bounds) is something "
        "else; all processes must give the same",
        err);
}

/* -- settings ------------------------------------------------------------------------------------------------------ */

/* Writes keys and values, each with its terminator, to `to` unless it is NULL. Returns their bytes. */
static size_t pack(const xsmi_settings *s, char *to)
{
    size_t bytes = 0;
    for (size_t i = 0; i < 2 * s->count; i++) {
        const char *text = i % 2 ? s->entries[i / 2].value : s->entries[i / 2].key;
        const size_t size = strlen(text) + 1;
        if (to) {
            memcpy(to + bytes, text, size);
        }
        bytes += size;
    }
    return bytes;
}

/* Returns the value of a key among packed settings; NULL if there is none. */
static const char *packed_value(const char *packed, size_t bytes, const char *key)
{
    for (const char *at = packed; at < packed + bytes;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, key) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* Fails, and names the first setting that differs from process 0's. */
static xsm_status compare_packed(const xsmi_settings *s, uint32_t rank, const char *packed, size_t bytes,
                                 xsm_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        const xsmi_entry *ours = &s->entries[i];
        const char *theirs = packed_value(packed, bytes, ours->key),
                   *name = ours->key + sizeof XSMI_SETTINGS_PREFIX - 1;
        if (!theirs || strcmp(theirs, ours->value) != 0) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "rank %u has %s = %s, and rank 0 has %s; all processes need the same", rank, name,
                             ours->value, theirs ? theirs : "no such setting");
        }
    }
    for (const char *at = packed; at < packed + bytes;) {
        const char *value = at + strlen(at) + 1;
        if (!xsmi_settings_value(s, at)) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "rank 0 has %s = %s, and rank %u no such setting; all processes need the same",
                             at + sizeof XSMI_SETTINGS_PREFIX - 1, value, rank);
        }
        at = value + strlen(value) + 1;
    }
    return XSM_OK;
}

/* Sends process 0's settings to all, and compares. */
static xsm_status compare_texts(xsm_context *group, const xsmi_settings *s, xsm_error *err)
{
    uint64_t bytes = pack(s, NULL);
    XSMI_TRY(xsmi_exchange_copy(group, &bytes, sizeof bytes, 0, err));
    char *packed = xsmi_allocate(group, bytes, 1);
    xsm_status status =
        xsmi_agree(group, packed ? XSM_OK : xsmi_fail_memory(err, bytes, "the settings of all processes"), err);
    if (status == XSM_OK) {
        if (xsmi_rank(group) == 0) {
            (void)pack(s, packed);
        }
        status = xsmi_exchange_copy(group, packed, (size_t)bytes, 0, err);
    }
    if (status == XSM_OK) {
        status = xsmi_agree(group, compare_packed(s, xsmi_rank(group), packed, (size_t)bytes, err), err);
    }
    xsmi_release(group, packed, (size_t)bytes, 1);
    return status;
}

xsm_status xsmi_settings_agree(xsm_context *group, const xsmi_settings *s, xsm_status status, xsm_error *err)
{
    XSMI_TRY(xsmi_agree(group, status, err));
    uint64_t hash = 0;
    for (size_t i = 0; i < s->count; i++) {
        hash = xsmi_hash(s->entries[i].key, strlen(s->entries[i].key) + 1, hash);
        hash = xsmi_hash(s->entries[i].value, strlen(s->entries[i].value) + 1, hash);
    }
    bool same;
    XSMI_TRY(xsmi_compare_first(group, hash, &same, err));
    float other = same ? 0 : 1;
    XSMI_TRY(xsmi_exchange_max(group, &other, 1, err));
    return other == 0 ? XSM_OK : compare_texts(group, s, err);
}

xsm_status xsmi_numbers_agree(xsm_context *group, const xsmi_number *numbers, size_t count, xsm_status status,
                              xsm_error *err)
{
    if (!group) {
        return status;
    }
    xsmi_settings s = {.context = group};
    status = status == XSM_OK ? xsmi_settings_add_numbers(&s, numbers, count, err) : status;
    status = xsmi_settings_agree(group, &s, status, err);
    xsmi_settings_free(&s);
    return status;
}
