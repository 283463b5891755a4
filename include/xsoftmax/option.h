/* SPDX-License-Identifier: MIT */
/**
 * @file option.h
 * @brief Named options of estimators, samplers, indexes and optimizers.
 */
#ifndef XSOFTMAX_OPTION_H
#define XSOFTMAX_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/error.h>

/** @defgroup option Options
 *
 * An estimator, sampler, index or optimizer lists its options in a table of #xsm_option. This table defines the
 * accepted values, the text of the command line and the manual, and the suggestions in error messages.
 * @ref method_options lists those of all built-in methods.
 *  @{ */

/** Type of an option's value and of the struct member that stores it. */
enum {
    XSM_OPTION_DOUBLE = 1, /**< A `double`. */
    XSM_OPTION_INT = 2,    /**< An `int64_t`. */
    XSM_OPTION_BOOL = 3,   /**< An `int32_t`, 0 or 1; written yes or no. */
    XSM_OPTION_CHOICE = 4, /**< An `int32_t`, the position in `choices`. */
    XSM_OPTION_CLASSES = 5 /**< An #xsm_class_list; written as numbers separated by commas. For estimators only. */
};

/** Value of an #XSM_OPTION_CLASSES: classes in the given order, without duplicates; empty by default. */
typedef struct xsm_class_list {
    const uint32_t *classes; /**< [count] classes, owned by the object that has the option; NULL if empty. */
    size_t count;            /**< Number of classes. */
} xsm_class_list;

/** One option. It grows at its end, as other structs with a size: a table of functions has an array of options, all of
 *  the size that the first one says, so that a program and a library of different releases read each other's. A program
 *  gets those of the library one by one: xsm_estimator_ops_option() and its like (ext/). */
typedef struct xsm_option {
    size_t size;                /**< sizeof(xsm_option) in whatever has the table: the step to the next option. */
    const char *name;           /**< Lower-case words joined by hyphens. */
    int32_t type;               /**< An XSM_OPTION_* value. */
    uint32_t offset;            /**< Offset of the value in the state of a table of functions, in bytes. */
    const char *initial;        /**< Default value, as text. */
    double minimum;             /**< For numbers: smallest accepted value. */
    double maximum;             /**< For numbers: largest accepted value. */
    const char *const *choices; /**< For a choice: the words, ended by NULL. For an `int64_t`: NULL, or words that are
                                     accepted in place of a number; the first is stored as -1, the next as -2, ... */
    const char *help;           /**< Description, one sentence. */
} xsm_option;

/** @} */

#endif
