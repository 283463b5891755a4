/**
 * @file version.h
 * @brief Version of the library and number of its ABI.
 *
 * The two move apart: the release version says what is there, the ABI number says which programs still
 * run. The shared library's soname is made from the ABI number alone.
 */
#ifndef XSOFTMAX_VERSION_H
#define XSOFTMAX_VERSION_H

#include <stdint.h>

/** @defgroup version Version
 *  @{ */

#define XSM_VERSION_MAJOR 0 /**< Changes when programs must be edited. */
#define XSM_VERSION_MINOR 1 /**< Changes when something is added. */
#define XSM_VERSION_PATCH 0 /**< Changes when something is mended. */

/** Number of the ABI: a program built against it runs with every release that carries the same number. */
#define XSM_ABI_VERSION 0

/** The release as one number, 10000*major + 100*minor + patch, for `#if`. */
#define XSM_VERSION (XSM_VERSION_MAJOR * 10000 + XSM_VERSION_MINOR * 100 + XSM_VERSION_PATCH)

/** Marks what the library exports. */
#if defined(__GNUC__)
#define XSM_API __attribute__((visibility("default")))
#else
#define XSM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Release of the library that is running, to compare with #XSM_VERSION. Any thread, O(1). */
XSM_API uint32_t xsm_version(void);
/** The same as text, such as "0.1.0". The string is static. */
XSM_API const char *xsm_version_string(void);
/** ABI number of the library that is running, to compare with #XSM_ABI_VERSION. */
XSM_API uint32_t xsm_abi_version(void);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
