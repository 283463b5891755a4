/*
 * Made-up data of the shape of AmazonCat-13K with one label a row (Titsias 2016, Table 1).
 */
#ifndef PAPERS_SHAPE_AMAZONCAT_H
#define PAPERS_SHAPE_AMAZONCAT_H

#include "papers.h"

typedef struct amazoncat_sizes {
    uint64_t rows, test_rows;
    uint32_t features, classes;
    double length; /* non-zeros a row, nearly */
} amazoncat_sizes;

/* Training and test rows, the caller's; unit length. */
void amazoncat_make(const papers *p, const amazoncat_sizes *s, xsm_dataset **train, xsm_dataset **test);

#endif
