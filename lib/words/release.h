/*
 * The release of libxsoftmax that this library works with.
 */
#ifndef XSMI_RELEASE_H
#define XSMI_RELEASE_H

#include "base/base.h"

/* Fails with XSM_ERROR_UNSUPPORTED unless libxsoftmax is of the release that this library was built with: this library
 * contains code that reads the structs of that release. */
xsm_status xsmi_words_check_release(xsm_error *err);

#endif
