/* The formats that XSMI_FORMATS lists. */
#include "base/registry.h"
#include "base/order.h"
#include "read/format.h"

const xsmi_format *const xsmi_formats[] = {XSMI_FORMATS(XSMI_REGISTRY_TABLE) NULL};

const xsmi_format *xsmi_format_of(int32_t id)
{
    for (size_t i = 0; xsmi_formats[i]; i++) {
        if (xsmi_formats[i]->id == id) {
            return xsmi_formats[i];
        }
    }
    return NULL;
}

int32_t xsmi_format_last(void)
{
    int32_t last = 0;
    for (size_t i = 0; xsmi_formats[i]; i++) {
        last = XSMI_MAX(xsmi_formats[i]->id, last);
    }
    return last;
}
