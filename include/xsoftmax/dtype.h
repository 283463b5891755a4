/* SPDX-License-Identifier: MIT */
/**
 * @file dtype.h
 * @brief Types of the numbers in arrays that the library and its host share.
 */
#ifndef XSOFTMAX_DTYPE_H
#define XSOFTMAX_DTYPE_H

/** @ingroup error
 *  @{ */

/** Type of an array's numbers, in the byte order of the machine. Each function says which types it accepts. */
enum {
    XSM_DTYPE_FLOAT32 = 0,  /**< float. */
    XSM_DTYPE_FLOAT64 = 1,  /**< double. */
    XSM_DTYPE_BFLOAT16 = 2, /**< Of weights: the upper 16 bits of a float, in a uint16_t. */
    XSM_DTYPE_INT8 = 3,     /**< Of weights: int8_t, times a factor for each row. */
    XSM_DTYPE_UINT8 = 4,    /**< uint8_t. */
    XSM_DTYPE_INT32 = 5,    /**< int32_t. */
    XSM_DTYPE_UINT32 = 6,   /**< uint32_t. */
    XSM_DTYPE_INT64 = 7,    /**< int64_t. */
    XSM_DTYPE_UINT64 = 8    /**< uint64_t. */
};

/** @} */

#endif
