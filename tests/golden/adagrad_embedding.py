#!/usr/bin/python3
"""Training embedding models with Adagrad, by NumPy in double. Run as: adagrad_embedding.py > adagrad_embedding_golden.h;
with that file as argument it is compared.

The problem is made by the formulas below, which test_adagrad_embedding.c repeats. One step on a batch of n rows x with
labels y: phi = act(x V) or act(x V / (features of x)), z = phi W' + b, G = softmax(z) - [y]; with all gradients taken
at the old weights,
    T_W = G' phi / n, T_b = mean G, T_V = x' ((G W) act'(.) pool) / n,
and each weight takes s += t^2, w -= eta t / sqrt(s). Tied vectors, V = W, take T_W first, then T_V, both with one s.
"""
import numpy as np

from golden import finish

ROWS, FEATURES, HIDDEN, STEPS, ETA = 24, 7, 3, 12, 0.2
CASES = [(act, mean, tied, n, initial) for act, mean, tied in (("identity", 0, 0), ("tanh", 1, 0), ("relu", 0, 0),
                                                               ("identity", 1, 1), ("tanh", 0, 1))
         for n in (1, 4) for initial in (1e-4, 0.5)]


def feature(i, j):
    return 0.0 if (i + j) % 3 else ((5 * i + 3 * j + i * j) % 10 - 4.5) / 4


def start(j, h, shift):
    return ((3 * j + 5 * h + shift) % 7 - 3) / 8 + 1 / 64


def train(act, mean, tied, n, initial):
    x = np.array([[feature(i, j) for j in range(FEATURES)] for i in range(ROWS)])
    y = [(7 * i + i // 3) % FEATURES for i in range(ROWS)]
    w = np.array([[start(k, h, 0) for h in range(HIDDEN)] for k in range(FEATURES)])
    b = np.array([(2 * k % 5 - 2) / 8 for k in range(FEATURES)])
    v = w if tied else np.array([[start(j, h, 2) for h in range(HIDDEN)] for j in range(FEATURES)])
    sw, sb = np.full_like(w, initial), np.full_like(b, initial)
    sv = sw if tied else np.full_like(v, initial)

    def take(weights, squares, t):
        squares += t * t
        weights -= ETA * t / np.sqrt(squares)

    for step in range(STEPS):
        rows = [(step * n + r) % ROWS for r in range(n)]
        tw, tb, tv = np.zeros_like(w), np.zeros_like(b), np.zeros_like(v)
        for i in rows:
            pool = 1 / np.count_nonzero(x[i]) if mean else 1.0
            before = pool * (x[i] @ v)
            phi = {"identity": before, "tanh": np.tanh(before), "relu": np.maximum(before, 0)}[act]
            slope = {"identity": np.ones(HIDDEN), "tanh": 1 - phi * phi, "relu": (before > 0).astype(float)}[act]
            z = w @ phi + b
            g = np.exp(z - z.max())
            g /= g.sum()
            g[y[i]] -= 1
            tw += np.outer(g, phi) / n
            tb += g / n
            tv += np.outer(x[i], (g @ w) * slope * pool) / n
        take(w, sw, tw)
        take(b, sb, tb)
        take(v, sv, tv)
    return np.concatenate([w, b[:, None], v], axis=1)


def lines():
    yield "/* Written by adagrad_embedding.py. */\n/* clang-format off */"
    yield "enum { GOLDEN_ROWS = %d, GOLDEN_FEATURES = %d, GOLDEN_HIDDEN = %d, GOLDEN_STEPS = %d };" % (
        ROWS, FEATURES, HIDDEN, STEPS)
    yield "#define GOLDEN_ETA %r" % ETA
    yield "/* After the last step, of class and feature k: the row of W, the bias, the vector. */"
    yield "static const struct {\n    const char *activation;\n    int mean, tied, batch;\n    double initial;"
    yield "    double w[%d][%d];\n} golden_adagrad_embedding[] = {" % (FEATURES, 2 * HIDDEN + 1)
    for case in CASES:
        yield '    {"%s", %d, %d, %d, %r,\n     {' % case
        for row in train(*case):
            yield "      {%s}," % ", ".join("%.12g" % value for value in row)
        yield "     }},"
    yield "};"


finish(lines(), relative=1e-8, absolute=1e-11)
