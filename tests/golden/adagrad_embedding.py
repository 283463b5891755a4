#!/usr/bin/python3
"""Training embedding models with Adagrad, in 40 decimal digits. Run as:
adagrad_embedding.py > adagrad_embedding_golden.h; with that file as argument it is compared.

The problem is made by the formulas below, which test_adagrad_embedding.c repeats. One step on a batch of n rows x with
labels y: phi = act(x V) or act(x V / (features of x)), z = phi W' + b, G = softmax(z) - [y]; with all gradients taken
at the old weights,
    T_W = G' phi, T_b = sum G, T_V = x' ((G W) act'(.) pool),
and each weight takes s += t^2, w -= eta t / sqrt(s). Tied vectors, V = W, take T_W first, then T_V, both with one s. With
row-adagrad, a row of W or V has one s, to which the mean of the t^2 that are not 0 is added.
"""
from golden import Decimal, digits, finish

ROWS, FEATURES, HIDDEN, STEPS, ETA = 24, 7, 3, 12, 0.2
CASES = [("adagrad", act, mean, tied, n, 1e-4 if tied == (n == 1) else 0.5) for act, mean, tied in (("identity", 0, 0), ("tanh", 1, 0), ("relu", 0, 0),
                                                               ("identity", 1, 1), ("tanh", 0, 1))
         for n in (1, 4)]
CASES += [("row-adagrad", "tanh", mean, tied, n, 0.5) for mean, tied in ((1, 0), (0, 1)) for n in (1, 4)]


def feature(i, j):
    return Decimal(0) if (i + j) % 3 else (Decimal((5 * i + 3 * j + i * j) % 10) - Decimal("4.5")) / 4


def start(j, h, shift):
    return Decimal((3 * j + 5 * h + shift) % 7 - 3) / 8 + Decimal(1) / 64


def activate(act, before):
    """A hidden value and its slope."""
    if act == "tanh":
        e = (2 * before).exp()
        value = (e - 1) / (e + 1)
        return value, 1 - value * value
    if act == "relu" and before <= 0:
        return Decimal(0), Decimal(0)
    return before, Decimal(1)


def zeros(rows, columns):
    return [[Decimal(0)] * columns for _ in range(rows)]


def dot(a, b):
    return sum(p * q for p, q in zip(a, b))


def step_by(weights, squares, gradient, of_rows=False):
    for row, square, slope in zip(weights, squares, gradient):
        used = [t * t for t in slope if t]
        for j, t in enumerate(slope):
            square[j] += sum(used, Decimal(0)) / max(len(used), 1) if of_rows else t * t
            row[j] -= Decimal(ETA) * t / square[j].sqrt()


def train(optimizer, act, mean, tied, n, initial):
    x = [[feature(i, j) for j in range(FEATURES)] for i in range(ROWS)]
    w = [[start(k, h, 0) for h in range(HIDDEN)] for k in range(FEATURES)]
    b = [[Decimal(2 * k % 5 - 2) / 8 for k in range(FEATURES)]]
    v = w if tied else [[start(j, h, 2) for h in range(HIDDEN)] for j in range(FEATURES)]
    sw, sb = ([[Decimal(initial)] * len(m[0]) for _ in m] for m in (w, b))
    sv = sw if tied else [[Decimal(initial)] * HIDDEN for _ in v]
    for step in range(STEPS):
        tw, tb, tv = zeros(FEATURES, HIDDEN), zeros(1, FEATURES), zeros(FEATURES, HIDDEN)
        for i in ((step * n + r) % ROWS for r in range(n)):
            pool = Decimal(1) / sum(1 for value in x[i] if value) if mean else Decimal(1)
            columns = zip(*(activate(act, pool * dot(x[i], column)) for column in zip(*v)))
            phi, slope = (list(column) for column in columns)
            e = [(dot(row, phi) + shift).exp() for row, shift in zip(w, b[0])]
            g = [value / sum(e) for value in e]
            g[(7 * i + i // 3) % FEATURES] -= 1
            back = [dot(g, column) * slope[h] * pool for h, column in enumerate(zip(*w))]
            for k in range(FEATURES):
                tb[0][k] += g[k]
                for h in range(HIDDEN):
                    tw[k][h] += g[k] * phi[h]
                    tv[k][h] += x[i][k] * back[h]
        step_by(w, sw, tw, optimizer != "adagrad")
        step_by(b, sb, tb)
        step_by(v, sv, tv, optimizer != "adagrad")
    return [row + [shift] + vector for row, shift, vector in zip(w, b[0], v)]


def lines():
    yield "/* Written by adagrad_embedding.py. */\n/* clang-format off */"
    yield "enum { GOLDEN_ROWS = %d, GOLDEN_FEATURES = %d, GOLDEN_HIDDEN = %d, GOLDEN_STEPS = %d };" % (
        ROWS, FEATURES, HIDDEN, STEPS)
    yield "#define GOLDEN_ETA %r" % ETA
    yield "/* After the last step, of class and feature k: the row of W, the bias, the vector. */"
    yield "static const struct {\n    const char *optimizer, *activation;\n    int mean, tied, batch;\n    double initial;"
    yield "    double w[%d][%d];\n} golden_adagrad_embedding[] = {" % (FEATURES, 2 * HIDDEN + 1)
    for case in CASES:
        yield '    {"%s", "%s", %d, %d, %d, %r,\n     {' % case
        for row in train(*case):
            yield "      {%s}," % ", ".join(digits(value) for value in row)
        yield "     }},"
    yield "};"


finish(lines())
