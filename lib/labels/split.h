/*
 * Divides labels by their vectors: into two parts of given sizes by balanced spherical 2-means (Prabhu et al., Parabel,
 * 2018), or into up to k clusters of any size by spherical k-means (Khandagale et al., Bonsai, 2020).
 */
#ifndef XSMI_LABEL_SPLIT_H
#define XSMI_LABEL_SPLIT_H

#include "labels/vectors.h"

typedef struct xsmi_split_settings {
    uint64_t seed;
    uint32_t iterations; /* at most; fewer when no label moves any more */
    bool divided;        /* each process of the context does some of the splits, if there are several */
} xsmi_split_settings;

/* One division of labels[0..count) (numbers of vectors), which are reordered: part j gets the positions from first[j]
 * up to first[j+1]. Within a part labels keep their order. */
typedef struct xsmi_split {
    uint32_t *labels;
    uint32_t count;
    uint32_t parts;    /* at least 2; afterwards perhaps fewer clusters */
    uint32_t *first;   /* [parts + 1]; given for a balanced split, else a result */
    bool balanced;     /* into two parts */
    uint64_t position; /* of its random stream */
} xsmi_split;

/* Runs splits that are independent of each other: large ones with all threads, one after the other, the small ones side
 * by side. The result depends neither on that nor on the number of processes, which agree on a failure if they divide
 * the splits. O(iterations) passes over the vectors. */
xsm_status xsmi_split_all(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                          size_t count, xsm_error *err);

#endif
