/**
 * @file xsoftmax.h
 * @brief Everything that a user of the library needs.
 */
#ifndef XSOFTMAX_H
#define XSOFTMAX_H

#include <xsoftmax/version.h>

#endif
