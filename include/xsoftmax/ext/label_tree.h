/**
 * @file ext/label_tree.h
 * @brief The options of label trees as a table, for programs that list them.
 */
#ifndef XSOFTMAX_EXT_LABEL_TREE_H
#define XSOFTMAX_EXT_LABEL_TREE_H

#include <stddef.h>

#include <xsoftmax/label_tree.h>

/** @ingroup label_tree
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Option number `index` of the table, NULL past the last. Its `offset` says nothing: set a member by
 *  xsm_label_tree_set(). */
XSM_API const xsm_option *xsm_label_tree_option(size_t index);
/** Writes an option's value as text, that of the default for a member that stands for it; terminated, cut off where
 *  `size` is too small.
 *  @return the text's full length; SIZE_MAX, and an empty text, for a name that is no option and for options that the
 *          fit refuses. */
XSM_API size_t xsm_label_tree_get(const xsm_label_tree_options *options, const char *name, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
