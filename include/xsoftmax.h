/* SPDX-License-Identifier: MIT */
/**
 * @file xsoftmax.h
 * @brief Includes what most programs need, and what is experimental if XSM_EXPERIMENTAL is defined before. A program
 * that calls functions of other headers of xsoftmax/ includes those headers itself.
 *
 * What every function promises to its host (errors, errno, floating point, stack, exceptions) is in error.h.
 */
#ifndef XSOFTMAX_H
#define XSOFTMAX_H

#include <xsoftmax/batch.h>
#include <xsoftmax/context.h>
#include <xsoftmax/dataset.h>
#include <xsoftmax/dtype.h>
#include <xsoftmax/error.h>
#include <xsoftmax/estimator.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/model.h>
#include <xsoftmax/optimizer.h>
#include <xsoftmax/option.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/storage.h>
#include <xsoftmax/train.h>
#include <xsoftmax/trainer.h>
#include <xsoftmax/version.h>

#ifdef XSM_EXPERIMENTAL
#include <xsoftmax/choose.h>
#include <xsoftmax/experimental.h>
#include <xsoftmax/tune.h>
#endif

#endif
