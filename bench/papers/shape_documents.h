/*
 * Generated documents, bags of words: in the shape of AmazonCat-13K with one label per row (Titsias 2016, Table 1), or
 * of WikiLSHTC with several (Yen et al. 2018, Table 2).
 */
#ifndef PAPERS_SHAPE_DOCUMENTS_H
#define PAPERS_SHAPE_DOCUMENTS_H

#include "papers.h"

typedef struct documents_sizes {
    uint64_t rows, test_rows;
    uint32_t features, classes;
    double length;         /* non-zeros per row, about */
    double class_exponent; /* exponent of the classes' Zipf distribution */
    double own, shared;    /* shares of a row's words that come from its classes' lists, and from their groups' */
    uint32_t most_labels;  /* 1 to that many per row, uniformly; at most DOCUMENTS_LABELS_MAX */
} documents_sizes;

enum { DOCUMENTS_LABELS_MAX = 16 };

/* AmazonCat's exponent is the one at which the largest class has 19 % of the rows and the fifteen largest half of them,
 * as in the paper. */
#define DOCUMENTS_AMAZONCAT(rows, test_rows, features, classes, length)                                                \
    {                                                                                                                  \
        rows, test_rows, features, classes, length, 1.13, 0.08, 0.12, 1                                                \
    }

/* Training and test rows, of unit length; the caller frees them. */
void documents_make(const papers *p, const documents_sizes *s, xsm_dataset **train, xsm_dataset **test);

#endif
