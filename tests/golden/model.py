#!/usr/bin/python3
"""Golden numbers of exact scoring, from NumPy in double precision.

Run as: model.py > model_golden.h; with that file as argument it is compared.

The inputs are formulas that test_model_exact.c repeats. All are small multiples of powers of two, so that every score
is exact in float32 whatever the order of its additions, and ties are real ties.
"""
import numpy as np

from golden import finish

D, K, N, TOP = 37, 600, 40, 7

k = np.arange(K)[:, None]
j = np.arange(D)[None, :]
i = np.arange(N)[:, None]
weight = ((k * 7919 + j * 104729 + 13 * k * j) % 257 - 128) / 512.0
bias = ((np.arange(K) * 37) % 101 - 50) / 64.0
dense = ((i * 31 + j * 17 + i * j * 7) % 65 - 32) / 32.0
sparse = np.where((i * 5 + j * 3 + i * j) % 4 == 0, dense, 0.0)
sparse[3] = 0.0  # a row without features
target = (np.arange(N) * 97 + 11) % K


def table(name, kind, rows):
    yield f"static const {kind} {name} = {{"
    for row in rows:
        yield "    " + row + ","
    yield "};"


def emit(name, x):
    scores = x @ weight.T + bias
    assert np.array_equal(scores.astype(np.float32).astype(np.float64), scores)
    top = np.max(scores, axis=1)
    lse = top + np.log(np.sum(np.exp(scores - top[:, None]), axis=1))
    best = np.lexsort((np.broadcast_to(np.arange(K), scores.shape), -scores), axis=1)[:, :TOP]
    yield from table(f"golden_{name}_log_sum_exp[GOLDEN_ROWS]", "double", [repr(float(v)) for v in lse])
    yield from table(f"golden_{name}_target[GOLDEN_ROWS]", "double",
          [repr(float(scores[r, target[r]])) for r in range(N)])
    yield from table(f"golden_{name}_top_class[GOLDEN_ROWS][GOLDEN_TOP]", "unsigned",
          ["{" + ", ".join(str(c) for c in row) + "}" for row in best])
    yield from table(f"golden_{name}_top_score[GOLDEN_ROWS][GOLDEN_TOP]", "double",
          ["{" + ", ".join(repr(float(scores[r, c])) for c in best[r]) + "}" for r in range(N)])


def lines():
    yield "/* Made by model.py; do not edit. */"
    yield "/* clang-format off */"
    yield f"#define GOLDEN_FEATURES {D}"
    yield f"#define GOLDEN_CLASSES {K}"
    yield f"#define GOLDEN_ROWS {N}"
    yield f"#define GOLDEN_TOP {TOP}"
    yield from emit("dense", dense)
    yield from emit("sparse", sparse)


finish(lines(), relative=1e-14)
