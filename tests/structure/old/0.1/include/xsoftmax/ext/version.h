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

/** ABI number of ext/ in the library at run time, to compare with #XSM_EXT_ABI_VERSION: with another one the library
 *  refuses tables, and a program that was linked with functions of ext/ (but those of ext/bindings.h) is not started.
 *  So it is for programs that look functions up by their names. Any thread, O(1). */
XSM_API uint32_t xsm_ext_abi_version(void);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
