#!/usr/bin/python3
"""Golden numbers of exact scoring: scores in whole numbers, logarithms in 40 decimal digits.

Run as: model.py > model_golden.h; with that file as argument it is compared.

The inputs are formulas that test_model_score_all.c repeats. All are small multiples of powers of two, so that every score
is exact in float32 whatever the order of its additions, and ties are real ties.
"""
from golden import Decimal, finish

D, K, N, TOP = 37, 600, 18, 7

# Weights in units of 1/512, features of 1/32, biases of 1/64: scores are whole numbers of 1/16384.
UNIT = 512 * 32
weight = [[(k * 7919 + j * 104729 + 13 * k * j) % 257 - 128 for j in range(D)] for k in range(K)]
bias = [(k * 37 % 101 - 50) * (UNIT // 64) for k in range(K)]
dense = [[(i * 31 + j * 17 + i * j * 7) % 65 - 32 for j in range(D)] for i in range(N)]
sparse = [[x if (i * 5 + j * 3 + i * j) % 4 == 0 and i != 3 else 0 for j, x in enumerate(row)]
          for i, row in enumerate(dense)]  # row 3 has no features
target = [(i * 97 + 11) % K for i in range(N)]


def table(name, kind, rows):
    yield f"static const {kind} {name} = {{"
    for row in rows:
        yield "    " + row + ","
    yield "};"


def emit(name, rows):
    scores = [[sum(w * f for w, f in zip(weight[k], x)) + bias[k] for k in range(K)] for x in rows]
    assert all(abs(score) < 2**24 for row in scores for score in row)  # exact in float32
    power = {score: (Decimal(score) / UNIT).exp() for score in set().union(*scores)}
    best = [sorted(range(K), key=lambda k, row=row: (-row[k], k))[:TOP] for row in scores]
    yield from table(f"golden_{name}_log_sum_exp[GOLDEN_ROWS]", "double",
                     [repr(float(sum(power[score] for score in row).ln())) for row in scores])
    yield from table(f"golden_{name}_target[GOLDEN_ROWS]", "double",
                     [repr(row[k] / UNIT) for row, k in zip(scores, target)])
    yield from table(f"golden_{name}_top_class[GOLDEN_ROWS][GOLDEN_TOP]", "unsigned",
                     ["{" + ", ".join(str(k) for k in classes) + "}" for classes in best])
    yield from table(f"golden_{name}_top_score[GOLDEN_ROWS][GOLDEN_TOP]", "double",
                     ["{" + ", ".join(repr(row[k] / UNIT) for k in classes) + "}" for row, classes in zip(scores, best)])


def lines():
    yield "/* Made by model.py; do not edit. */"
    yield "/* clang-format off */"
    yield f"#define GOLDEN_FEATURES {D}"
    yield f"#define GOLDEN_CLASSES {K}"
    yield f"#define GOLDEN_ROWS {N}"
    yield f"#define GOLDEN_TOP {TOP}"
    yield from emit("dense", dense)
    yield from emit("sparse", sparse)


finish(lines())
