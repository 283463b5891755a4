/* SPDX-License-Identifier: MIT */
/**
 * @file ext/version.h
 * @brief The ABI number of ext/ at run time.
 */
#ifndef XSOFTMAX_EXT_VERSION_H
#define XSOFTMAX_EXT_VERSION_H

#include <stdint.h>

#include <xsoftmax/version.h>

/** @ingroup version
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** ABI number of ext/ in the library at run time, for programs that look up functions of ext/ by their names: they
 *  compare it with #XSM_EXT_ABI_VERSION before they call any. (If the numbers differ, the library refuses tables, and
 *  the linker does not start a program that was linked with functions of ext/.) Any thread, O(1). */
XSM_API uint32_t xsm_ext_abi_version(void);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
