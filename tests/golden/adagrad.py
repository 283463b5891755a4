#!/usr/bin/python3
"""Training with Adagrad, in 40 decimal digits. Run as: adagrad.py > adagrad_golden.h; with that file as argument it is
compared.

The problem is made by the formulas below, which test_adagrad.c repeats. One step on a batch: G = sum over its examples
of the outer products of score gradients and features, s += G^2, W -= eta G / sqrt(s), both element by element and the
bias as one more feature that is 1. Nothing is done where G is 0, as s > 0. With row-adagrad, s is one number for the weights
of a class, to which the mean of the G^2 that are not 0 is added, and one for its bias.
"""
from golden import Decimal, digits, finish, sigmoid

ROWS, FEATURES, CLASSES, STEPS, ETA = 24, 7, 5, 12, 0.3
CASES = [("adagrad", loss, sparse, n, 1e-8 if sparse == (n == 1) else 0.5) for loss in ("softmax", "pairs")
         for sparse in (0, 1) for n in (1, 4)]
CASES += [("row-adagrad", loss, sparse, 4 if sparse == (loss == "pairs") else 1, 0.5) for loss in ("softmax", "pairs")
          for sparse in (0, 1)]


def feature(i, j, sparse):
    return Decimal(0) if sparse and (i + j) % 3 else Decimal((5 * i + 3 * j + i * j) % 11 - 5) / 4


def label(i):
    return (7 * i + i // 3) % CLASSES


def score_gradient(loss, z, y):
    if loss == "softmax":
        e = [v.exp() for v in z]
        g = [v / sum(e) for v in e]
        g[y] -= 1
    else:  # 1.5 softplus(z_m - z_y) for the classes one and three further on
        g = [Decimal(0)] * CLASSES
        for m in ((y + 1) % CLASSES, (y + 3) % CLASSES):
            c = Decimal("1.5") * sigmoid(z[m] - z[y])
            g[m] += c
            g[y] -= c
    return g


def squares(optimizer, sums):
    if optimizer == "adagrad":
        return [v ** 2 for v in sums]
    used = [v ** 2 for v in sums[:FEATURES] if v]
    return [sum(used, Decimal(0)) / max(len(used), 1)] * FEATURES + [sums[FEATURES] ** 2]


def train(optimizer, loss, sparse, n, initial):
    x = [[feature(i, j, sparse) for j in range(FEATURES)] + [Decimal(1)] for i in range(ROWS)]
    w = [[Decimal((3 * k + 5 * j) % 7 - 3) / 8 for j in range(FEATURES)] + [Decimal(2 * k % 5 - 2) / 8]
         for k in range(CLASSES)]
    s = [[Decimal(initial)] * (FEATURES + 1) for _ in range(CLASSES)]
    for step in range(STEPS):
        sums = [[Decimal(0)] * (FEATURES + 1) for _ in range(CLASSES)]
        for i in ((step * n + r) % ROWS for r in range(n)):
            z = [sum(a * b for a, b in zip(row, x[i])) for row in w]
            for k, gradient in enumerate(score_gradient(loss, z, label(i))):
                for j, feature_value in enumerate(x[i]):
                    sums[k][j] += gradient * feature_value
        for k in range(CLASSES):
            for j, square in enumerate(squares(optimizer, sums[k])):
                s[k][j] += square
                w[k][j] -= Decimal(ETA) * sums[k][j] / s[k][j].sqrt()
    return w


def lines():
    yield "/* Written by adagrad.py. */\n/* clang-format off */"
    yield "enum { ADAGRAD_ROWS = %d, ADAGRAD_FEATURES = %d, ADAGRAD_CLASSES = %d, ADAGRAD_STEPS = %d };" % (
        ROWS, FEATURES, CLASSES, STEPS)
    yield "#define ADAGRAD_ETA %r" % ETA
    yield "/* Weights of each class after the last step, its bias at their end. */"
    yield "static const struct {\n    const char *optimizer, *loss;\n    int sparse, batch;\n    double initial;"
    yield "    double w[%d][%d];\n} golden_adagrad[] = {" % (CLASSES, FEATURES + 1)
    for case in CASES:
        yield '    {"%s", "%s", %d, %d, %r,\n     {' % case
        for row in train(*case):
            yield "      {%s}," % ", ".join(digits(v) for v in row)
        yield "     }},"
    yield "};"


finish(lines())
