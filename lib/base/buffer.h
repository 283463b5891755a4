/*
 * The bytes of an xsm_buffer, which models that use them in place hold beyond its next save and its end.
 */
#ifndef XSMI_BUFFER_H
#define XSMI_BUFFER_H

#include "base/base.h"
#include "base/lender.h"

#include <xsoftmax/buffer.h>

/* Refuses a buffer's storage that reads other bytes than those of the last save, or has a release() of the host's. All
 * other storages pass. `function` and `name` are for messages. */
xsm_status xsmi_buffer_check(const xsm_storage *storage, const char *function, const char *name, xsm_error *err);

/* Whom a model tells that uses the storage's bytes in place: the host, or the buffer's bytes, which are held until
 * then. */
xsmi_lender xsmi_buffer_lender(const xsm_storage *storage);

#endif
