#!/usr/bin/python3
"""Training with Adagrad, by NumPy in double. Run as: adagrad.py > adagrad_golden.h; with that file as argument it is
compared.

The problem is made by the formulas below, which test_adagrad.c repeats. One step on a batch: G = mean over its examples
of the outer products of score gradients and features, s += G^2, W -= eta G / sqrt(s), both element by element and the
bias as one more feature that is 1. Nothing is done where G is 0, as s > 0.
"""
import numpy as np

from golden import finish

ROWS, FEATURES, CLASSES, STEPS, ETA = 24, 7, 5, 12, 0.3
CASES = [(loss, sparse, n, initial) for loss in ("softmax", "pairs") for sparse in (0, 1) for n in (1, 4)
         for initial in (1e-8, 0.5)]


def feature(i, j, sparse):
    return 0.0 if sparse and (i + j) % 3 else ((5 * i + 3 * j + i * j) % 11 - 5) / 4


def label(i):
    return (7 * i + i // 3) % CLASSES


def score_gradient(loss, z, y):
    g = np.zeros(CLASSES)
    if loss == "softmax":
        e = np.exp(z - z.max())
        g = e / e.sum()
        g[y] -= 1
    else:  # 1.5 softplus(z_m - z_y) for the classes one and three further on
        for m in ((y + 1) % CLASSES, (y + 3) % CLASSES):
            c = 1.5 / (1 + np.exp(z[y] - z[m]))
            g[m] += c
            g[y] -= c
    return g


def train(loss, sparse, n, initial):
    x = np.array([[feature(i, j, sparse) for j in range(FEATURES)] + [1.0] for i in range(ROWS)])
    w = np.array([[((3 * k + 5 * j) % 7 - 3) / 8 for j in range(FEATURES)] + [((2 * k) % 5 - 2) / 8]
                  for k in range(CLASSES)])
    s = np.full_like(w, initial)
    for step in range(STEPS):
        rows = [(step * n + r) % ROWS for r in range(n)]
        g = sum(np.outer(score_gradient(loss, w @ x[i], label(i)), x[i]) for i in rows) / n
        s += g * g
        w -= ETA * g / np.sqrt(s)
    return w


def lines():
    yield "/* Written by adagrad.py. */\n/* clang-format off */"
    yield "enum { ADAGRAD_ROWS = %d, ADAGRAD_FEATURES = %d, ADAGRAD_CLASSES = %d, ADAGRAD_STEPS = %d };" % (
        ROWS, FEATURES, CLASSES, STEPS)
    yield "#define ADAGRAD_ETA %r" % ETA
    yield "/* Weights of each class after the last step, its bias at their end. */"
    yield "static const struct {\n    const char *loss;\n    int sparse, batch;\n    double initial;"
    yield "    double w[%d][%d];\n} golden_adagrad[] = {" % (CLASSES, FEATURES + 1)
    for case in CASES:
        yield '    {"%s", %d, %d, %r,\n     {' % case
        for row in train(*case):
            yield "      {%s}," % ", ".join("%.12g" % v for v in row)
        yield "     }},"
    yield "};"


finish(lines(), relative=1e-8, absolute=1e-11)
