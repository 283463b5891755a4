/*
 * Structs from programs built against other releases. Each starts with its size, members are added only at the end, and
 * zero means the default. So older and newer structs can both be recognised and read.
 */
#include "base/base.h"

#include "base/order.h"

#include <string.h>

xsm_status xsmi_check_struct_size(size_t known_size, size_t first_size, size_t size, const char *name, xsm_error *err)
{
    if (size < first_size) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_OLD, "%s.size is %zu, which is less than its first version's %zu bytes",
                         name, size, first_size);
    }
    if (size > known_size && size - known_size > 65536) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_NEW, "%s.size is %zu, which no release of the library has", name, size);
    }
    return XSM_OK;
}

static xsm_status check_size(size_t known_size, size_t first_size, const void *given, const char *name, size_t *size,
                             xsm_error *err)
{
    memcpy(size, given, sizeof *size);
    XSMI_TRY(xsmi_check_struct_size(known_size, first_size, *size, name, err));
    const unsigned char *bytes = given;
    for (size_t i = known_size; i < *size; i++) {
        if (bytes[i] != 0) {
            return xsmi_fail(err, XSM_ERROR_STRUCT_NEW,
                             "%s has a setting at byte %zu, which this release (%zu bytes) does not know", name, i,
                             known_size);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_options_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                             xsm_error *err)
{
    if (given) {
        size_t size;
        XSMI_TRY(check_size(known_size, first_size, given, name, &size, err));
        memcpy(known, given, XSMI_MIN(size, known_size));
    }
    memcpy(known, &known_size, sizeof known_size);
    return XSM_OK;
}

xsm_status xsmi_table_read(void *known, size_t known_size, size_t first_size, const void *given, const char *name,
                           xsm_error *err)
{
    size_t size;
    uint32_t abi;
    memcpy(&size, given, sizeof size);
    /* First: with another number, nothing else of the table is known. */
    if (size >= sizeof size + sizeof abi) {
        memcpy(&abi, (const unsigned char *)given + sizeof size, sizeof abi);
        if (abi != XSM_EXT_ABI_VERSION) {
            return xsmi_fail(err, XSM_ERROR_ABI,
                             "%s.abi is %u; this release accepts %d: build the table with its headers", name, abi,
                             XSM_EXT_ABI_VERSION);
        }
    }
    return xsmi_options_read(known, known_size, first_size, given, name, err);
}

xsm_status xsmi_check_member(int64_t value, int64_t most, const char *name, xsm_error *err)
{
    if (value >= 0 && value <= most) {
        return XSM_OK;
    }
    return most == 0 ? xsmi_fail(err, XSM_ERROR_STRUCT_NEW,
                                 "%s is %lld, which this release does not know; accepted is 0", name, (long long)value)
                     : xsmi_fail(err, XSM_ERROR_RANGE, "%s is %lld; accepted is 0 or 1", name, (long long)value);
}

xsm_status xsmi_options_write(const void *known, size_t known_size, size_t first_size, void *given, const char *name,
                              xsm_error *err)
{
    if (!given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s is NULL", name);
    }
    size_t size;
    XSMI_TRY(check_size(known_size, first_size, given, name, &size, err));
    size_t bytes = XSMI_MIN(size, known_size);
    memcpy((unsigned char *)given + sizeof size, (const unsigned char *)known + sizeof size, bytes - sizeof size);
    return XSM_OK;
}
