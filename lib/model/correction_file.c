/* Corrections in a model's file: the tensors that their kinds name. A model has at most one. */
#include "model/correction.h"

#include <string.h>

#define LIST(kind) &kind,
static const xsmi_correction_kind *const kinds[] = {XSMI_CORRECTIONS(LIST)};
#define KINDS (sizeof kinds / sizeof *kinds)

size_t xsmi_correction_tensors(const xsmi_correction *c, xsmi_tensor tensors[XSMI_CORRECTION_TENSORS])
{
    return c->kind->save(c, tensors);
}

/* Finds a kind's tensors; false if the file has none of them. */
static bool find_tensors(const xsmi_correction_kind *kind, const xsmi_container *file, xsmi_tensor_source *s)
{
    bool any = false;
    for (size_t i = 0; kind->tensor_names[i]; i++) {
        s->tensors[i] = xsmi_container_tensor(file, kind->tensor_names[i]);
        any |= s->tensors[i] != NULL;
    }
    return any;
}

xsm_status xsmi_correction_read(const xsmi_container *file, xsmi_tensor_source *source, xsmi_correction **out,
                                xsm_error *err)
{
    const xsmi_correction_kind *kind = NULL;
    *out = NULL;
    for (size_t i = 0; i < KINDS; i++) {
        if (!find_tensors(kinds[i], file, source)) {
            continue;
        }
        if (kind) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: it has a correction by '%s' and one by '%s'; one is accepted at most", source->name,
                             kind->name, kinds[i]->name);
        }
        kind = kinds[i];
    }
    if (!kind) {
        return XSM_OK;
    }
    (void)find_tensors(kind, file, source);
    return kind->load(source, out, err);
}
