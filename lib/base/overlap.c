/* Do arrays share memory? */
#include "base/overlap.h"

#include "base/order.h"

/* Whether [begin, end) shares a byte with a region's rows. It is known to share one with the range from the region's
 * first to its last byte. */
static bool meets(const xsmi_region *r, uintptr_t begin, uintptr_t end)
{
    const uintptr_t first = (uintptr_t)r->first;
    if (begin < first) {
        return end > first;
    }
    const size_t row = r->rows > 1 ? (size_t)((begin - first) / r->step) : 0;
    if (row >= r->rows) {
        return false;
    }
    const uintptr_t at = first + row * r->step;
    return begin < at + r->width || (row + 1 < r->rows && end > at + r->step);
}

static uintptr_t end_of(const xsmi_region *r)
{
    return (uintptr_t)r->first + (r->rows - 1) * r->step + r->width;
}

static bool overlap(const xsmi_region *a, const xsmi_region *b)
{
    const uintptr_t first = (uintptr_t)a->first;
    if (first >= end_of(b) || (uintptr_t)b->first >= end_of(a)) {
        return false;
    }
    for (size_t i = 0; i < a->rows; i++) {
        const uintptr_t at = first + i * a->step;
        if (meets(b, at, at + a->width)) {
            return true;
        }
    }
    return false;
}

static bool is_empty(const xsmi_region *r)
{
    return !r->first || r->rows == 0 || r->width == 0;
}

xsm_status xsmi_check_overlap(const char *what, const xsmi_region *regions, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            const xsmi_region *a = &regions[j], *b = &regions[i];
            if ((a->output || b->output) && !is_empty(a) && !is_empty(b) && overlap(a, b)) {
                return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s and %s share memory; each output needs its own", what,
                                 a->name, b->name);
            }
        }
    }
    return XSM_OK;
}
