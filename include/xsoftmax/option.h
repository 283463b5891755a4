/**
 * @file option.h
 * @brief Options by name: what methods can be told, described in one table.
 */
#ifndef XSOFTMAX_OPTION_H
#define XSOFTMAX_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/error.h>

/** @defgroup option Options
 *
 * An estimator, sampler, index or optimizer lists its options in a table of #xsm_option. The table alone decides what
 * is accepted, what the command line and the manual say, and what an error message suggests.
 *  @{ */

/** Type of an option's value and of the member that holds it. */
enum {
    XSM_OPTION_DOUBLE = 1, /**< A `double`. */
    XSM_OPTION_INT = 2,    /**< An `int64_t`. */
    XSM_OPTION_BOOL = 3,   /**< An `int32_t`, 0 or 1; written yes or no. */
    XSM_OPTION_CHOICE = 4, /**< An `int32_t`, the place in `choices`. */
    XSM_OPTION_CLASSES = 5 /**< An #xsm_class_list; written as numbers with commas. Of estimators only. */
};

/** Value of an #XSM_OPTION_CLASSES: classes in the order given, none twice; empty by default. */
typedef struct xsm_class_list {
    const uint32_t *classes; /**< [count], of whoever has the option; NULL when there is none. */
    uint32_t count;          /**< Their number. */
    uint32_t reserved;       /**< Zero. */
} xsm_class_list;

/** One option. */
typedef struct xsm_option {
    const char *name;           /**< Lower-case words joined by hyphens. */
    int32_t type;               /**< An XSM_OPTION_* value. */
    uint32_t offset;            /**< Where the value lies in the state, in bytes. */
    const char *initial;        /**< Default, as text. */
    double minimum;             /**< For numbers: least value accepted. */
    double maximum;             /**< For numbers: greatest value accepted. */
    const char *const *choices; /**< For a choice: the words, ended by NULL. For an `int64_t`: NULL, or words that may
                                     stand in place of a number; the first is held as -1, the next as -2, ... */
    const char *help;           /**< One sentence. */
} xsm_option;

/** @} */

#endif
