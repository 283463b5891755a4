/*
 * The bytes of an xsm_buffer. Models that use them in place keep them beyond the buffer's next save and its release.
 */
#ifndef XSMI_BUFFER_H
#define XSMI_BUFFER_H

#include "base/base.h"
#include "base/lender.h"

#include <xsoftmax/buffer.h>

/* Refuses a buffer's storage that reads other bytes than those of the last save, or has a release() of the host's. All
 * other storages pass. `function` and `name` are for messages. */
xsm_status xsmi_buffer_check(const xsm_storage *storage, const char *function, const char *name, xsm_error *err);

/* Returns whom a model tells when it no longer uses the storage's bytes in place: the host, or the buffer's block,
 * which is kept until then. */
xsmi_lender xsmi_buffer_lender(const xsm_storage *storage);

#endif
