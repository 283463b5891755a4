/*
 * Scores of rows stored in blocks of quads, written with the vocabulary of vector_rows.h and vector_tiles.h, which
 * includes this file. A vector holds the same four numbers of several rows, so that a row lies in few cache lines,
 * which makes it cheap to find and to write. The four sums of each row are added after vectors of them have been
 * transposed.
 */
#ifndef XSMI_VECTOR_QUADS_H
#define XSMI_VECTOR_QUADS_H

#include "kernels/vector_rows.h"

static void score_quads(const float *query, const float *rows, size_t block_stride, size_t blocks, size_t quads,
                        float *out)
{
    for (size_t b = 0; b < blocks; b++, rows += block_stride, out += XSMI_QUAD_ROWS) {
        for (size_t at = 0; at < XSMI_LINE; at += VW) {
            vf sum[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
            for (size_t c = 0; c < quads; c++) {
                vf q = v_load(query + c * XSMI_LINE + at);
                XSMI_UNROLL
                for (size_t g = 0; g < 4; g++) {
                    sum[g] = v_fma(v_load(rows + (g * quads + c) * XSMI_LINE + at), q, sum[g]);
                }
            }
            v_transpose_quads(sum);
            v_store(out + at, sum[0] + sum[1] + (sum[2] + sum[3]));
        }
    }
}

#endif
