/* SPDX-License-Identifier: MIT */
/**
 * @file version.h
 * @brief Version of the library and its ABI number.
 *
 * The ABI number is the first number of the version: it says which compiled programs still run, and the soname of the
 * shared library contains it alone. The second says which functions exist.
 */
#ifndef XSOFTMAX_VERSION_H
#define XSOFTMAX_VERSION_H

#include <stdint.h>

/** @defgroup version Version
 *  @{ */

#define XSM_VERSION_MAJOR 0 /**< Changes when programs must be edited or built again. */
#define XSM_VERSION_MINOR 1 /**< Changes when something is added. */
#define XSM_VERSION_PATCH 0 /**< Changes when something is fixed. */

/** ABI number: a program built with this header runs with every release that has the same ABI number. */
#define XSM_ABI_VERSION XSM_VERSION_MAJOR

/** ABI number of ext/: tables and programs that were compiled with these headers work with every release of the same
 *  number, which xsm_ext_abi_version() (ext/version.h) says at run time. Other releases refuse the tables with
 *  #XSM_ERROR_ABI. */
#define XSM_EXT_ABI_VERSION 1

/** The release as one number, 10000*major + 100*minor + patch, for `#if`. */
#define XSM_VERSION (XSM_VERSION_MAJOR * 10000 + XSM_VERSION_MINOR * 100 + XSM_VERSION_PATCH)

/** Marks a function that the library exports. */
#if defined(__GNUC__)
#define XSM_API __attribute__((visibility("default")))
#else
#define XSM_API
#endif

/** Marks a function that the next ABI number will not have: `XSM_API XSM_DEPRECATED("since 1.2, by xsm_other") ...`.
 *  Until then it works as before. */
#if defined(__GNUC__)
#define XSM_DEPRECATED(text) __attribute__((deprecated(text)))
#else
#define XSM_DEPRECATED(text)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library at run time, to compare with #XSM_VERSION. Any thread, O(1). */
XSM_API uint32_t xsm_version(void);
/** Version of the library at run time as text, such as "0.1.0". Static string. */
XSM_API const char *xsm_version_string(void);
/** ABI number of the library at run time, to compare with #XSM_ABI_VERSION. */
XSM_API uint32_t xsm_abi_version(void);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
