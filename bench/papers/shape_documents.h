/*
 * Made-up documents, bags of words: of the shape of AmazonCat-13K with one label a row (Titsias 2016, Table 1), or of
 * WikiLSHTC's with several (Yen et al. 2018, Table 2).
 */
#ifndef PAPERS_SHAPE_DOCUMENTS_H
#define PAPERS_SHAPE_DOCUMENTS_H

#include "papers.h"

typedef struct documents_sizes {
    uint64_t rows, test_rows;
    uint32_t features, classes;
    double length;         /* non-zeros a row, nearly */
    double class_exponent; /* of the classes' Zipf distribution */
    double own, shared;    /* shares of a row's words that come from its classes' lists, and from their groups' */
    uint32_t most_labels;  /* 1 to that many a row, evenly; at most DOCUMENTS_LABELS_MAX */
} documents_sizes;

enum { DOCUMENTS_LABELS_MAX = 16 };

/* AmazonCat's exponent is the one at which the largest class holds 19 % of the rows and the largest fifteen half of
 * them, as the paper says. */
#define DOCUMENTS_AMAZONCAT(rows, test_rows, features, classes, length)                                                \
    {                                                                                                                  \
        rows, test_rows, features, classes, length, 1.13, 0.08, 0.12, 1                                                \
    }

/* Training and test rows, the caller's; unit length. */
void documents_make(const papers *p, const documents_sizes *s, xsm_dataset **train, xsm_dataset **test);

#endif
