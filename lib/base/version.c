/* Release and ABI numbers of the running library. */
#include <xsoftmax/ext/version.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

uint32_t xsm_version(void)
{
    return XSM_VERSION;
}

const char *xsm_version_string(void)
{
    return TEXT(XSM_VERSION_MAJOR) "." TEXT(XSM_VERSION_MINOR) "." TEXT(XSM_VERSION_PATCH);
}

uint32_t xsm_abi_version(void)
{
    return XSM_ABI_VERSION;
}

uint32_t xsm_ext_abi_version(void)
{
    return XSM_EXT_ABI_VERSION;
}
