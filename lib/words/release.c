#include "words/release.h"

#include <xsoftmax/version.h>

xsm_status xsmi_words_check_release(xsm_error *err)
{
    const uint32_t found = xsm_version();
    return found == XSM_VERSION
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "libxsoftmax is release %u.%u.%u, and libxsoftmax-words %d.%d.%d; both are to be of one "
                           "release",
                           found / 10000, found / 100 % 100, found % 100, XSM_VERSION_MAJOR, XSM_VERSION_MINOR,
                           XSM_VERSION_PATCH);
}
