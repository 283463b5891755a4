/*
 * Starting values of the public structs, for languages that cannot expand the macros of the headers.
 */
#define XSM_EXPERIMENTAL /* their structs, too */
#include "base/base.h"
#include "base/entry.h"

#include "base/order.h"

#include <string.h>

#include <xsoftmax-words.h>
#include <xsoftmax.h>
#include <xsoftmax/choose.h>
#include <xsoftmax/bindings.h>
#include <xsoftmax/ext/comm.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/experimental.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/experimental.h>
#include <xsoftmax/tune.h>

#define START(name, ...) static const name name##_start = __VA_ARGS__;
#include "base/starts.inc"
#undef START

static const struct {
    const char *name;
    const void *value;
    size_t first, size;
} structs[] = {
#define START(name, ...) {#name, &name##_start, XSMI_FIRST(name), sizeof(name)},
#include "base/starts.inc"
#undef START
};

xsm_status xsm_struct_init(const char *type, void *out, size_t size, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {type, "type"}, {out, "out"});
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        if (strcmp(structs[i].name, type) != 0) {
            continue;
        }
        XSMI_TRY(xsmi_check_struct_size(structs[i].size, structs[i].first, size, type, err));
        memset(out, 0, size);
        memcpy(out, structs[i].value, XSMI_MIN(size, structs[i].size));
        memcpy(out, &size, sizeof size);
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_NAME,
                     "xsm_struct_init: '%s' is no struct with a size; accepted is the name of one, such as "
                     "'xsm_trainer_options'",
                     type);
}
