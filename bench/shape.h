/*
 * The shape of the dense benchmarks: Amazon-670K cut to the classes of Bamler & Mandt (2020), features after PCA.
 */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

enum {
    DENSE_FEATURES = 512,
    DENSE_CLASSES = 217240,
};

#endif
