/**
 * @file option.h
 * @brief Options by name: what estimators and optimizers can be told, described in one table.
 */
#ifndef XSOFTMAX_OPTION_H
#define XSOFTMAX_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/error.h>

/** @defgroup option Options
 *
 * An estimator or optimizer lists its options in a table of #xsm_option. The table alone decides what is accepted, what
 * the command line and the manual say, and what an error message suggests.
 *  @{ */

/** Type of an option's value and of the member that holds it. */
enum {
    XSM_OPTION_DOUBLE = 1, /**< A `double`. */
    XSM_OPTION_INT = 2,    /**< An `int64_t`. */
    XSM_OPTION_BOOL = 3,   /**< An `int32_t`, 0 or 1; written yes or no. */
    XSM_OPTION_CHOICE = 4  /**< An `int32_t`, the place in `choices`. */
};

/** One option. */
typedef struct xsm_option {
    const char *name;           /**< Lower-case words joined by hyphens. */
    int32_t type;               /**< An XSM_OPTION_* value. */
    uint32_t offset;            /**< Where the value lies in the state of an estimator or optimizer. */
    const char *initial;        /**< Default, as text. */
    double minimum;             /**< For numbers: least value accepted. */
    double maximum;             /**< For numbers: greatest value accepted. */
    const char *const *choices; /**< For a choice: the words, ended by NULL. */
    const char *help;           /**< One sentence. */
} xsm_option;

/** @} */

#endif
