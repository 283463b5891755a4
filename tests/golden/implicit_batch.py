#!/usr/bin/python3
"""Implicit steps of several examples: the whole proximal objective, dense, minimised by SciPy in double.

Run as: implicit_batch.py > implicit_batch_golden.h; with that file as argument it is compared. The problems are made by
the formulas below, which test_estimator_batch.c repeats; every value is a small multiple of a power of two. Over all
weights, biases and the u of the batch:
    eta (1/n sum_i f_i + mu/(2N) |W|^2) + |W - W0|^2/2 + |b - b0|^2/2 + |u - u0|^2/2,
    f_i = u_i + e^-u_i (1 + sum_{k in L - y_i} e^(z_k - z_y) + (K - |L|)/|C| sum_{k in C} e^(z_k - z_y)).
"""
import numpy as np
from scipy.optimize import minimize

from golden import finish

ROWS, D, K = 60, 7, 11


def problem(n, size):
    i, j = np.arange(n)[:, None], np.arange(D)[None, :]
    x = ((i * 37 + j * 101 + i * j * 13) % 64 - 32) / 32.0
    if n > 2:
        x[2] = 0  # a row of zeros
    if n > 3:
        x[3] = x[0]  # the same row twice
    if n > 5:
        x[5] = x[1] / 2 - x[4]  # and one that depends on two others
    y = (np.arange(n) * 5 // 2) % 6  # labels that repeat
    k, j = np.arange(K)[:, None], np.arange(D)[None, :]
    w0 = size * ((k * 29 + j * 53 + k * j * 7) % 64 - 32) / 32.0
    b0 = size * ((np.arange(K) * 19) % 16 - 8) / 16.0
    u0 = (np.arange(n) * 3 % 8) / 4.0
    return x, y, w0, b0, u0


def solve(n, drawn, mu, eta, bias, size):
    x, y, w0, b0, u0 = problem(n, size)
    labels = np.unique(y)
    drawn = [k for k in drawn if k not in labels]
    a = np.zeros(K)
    a[labels] = 1
    a[drawn] = (K - len(labels)) / max(len(drawn), 1)
    rows = np.arange(n)
    others = np.tile(a, (n, 1))
    others[rows, y] = 0

    def split(t):
        return t[:K * D].reshape(K, D), t[K * D:K * D + K], t[K * D + K:]

    def f(t):
        w, b, u = split(t)
        z = x @ w.T + (b if bias else 0)
        with np.errstate(over="ignore"):
            e = others * np.exp(np.clip(z - z[rows, y][:, None] - u[:, None], None, 600))
        s = e.sum(axis=1) + np.exp(-u)
        value = eta * ((u + s).mean() + mu / (2 * ROWS) * (w**2).sum())
        value += ((w - w0)**2).sum() / 2 + ((b - b0)**2).sum() / 2 + ((u - u0)**2).sum() / 2
        g = e.copy()
        g[rows, y] = -e.sum(axis=1)
        g *= eta / n
        gw = g.T @ x + eta * mu / ROWS * w + w - w0
        gb = (g.sum(axis=0) if bias else 0) + b - b0
        gu = eta / n * (1 - s) + u - u0
        return value, np.concatenate([gw.ravel(), gb, gu])

    def hessian(t):
        # columns by complex-free central differences of the exact gradient: good enough for Newton's direction
        h = 1e-6
        columns = []
        for i in range(len(t)):
            up, down = t.copy(), t.copy()
            up[i] += h
            down[i] -= h
            columns.append((f(up)[1] - f(down)[1]) / (2 * h))
        m = np.array(columns)
        return (m + m.T) / 2

    # start where no exponent is large: u at its best for the old weights
    z = x @ w0.T + (b0 if bias else 0)
    u = np.log(1 + (others * np.exp(z - z[rows, y][:, None])).sum(axis=1))
    t = np.concatenate([w0.ravel(), b0, u])
    t = minimize(f, t, jac=True, method="L-BFGS-B",
                 options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 40}).x
    for _ in range(20):
        t = t - np.linalg.solve(hessian(t), f(t)[1])
    _, g = f(t)
    scale = np.abs(t - np.concatenate([w0.ravel(), b0, u0])).max()
    assert np.abs(g).max() < 1e-10 * (1 + scale), (n, drawn, mu, eta, np.abs(g).max())
    return split(t)


CASES = [  # n, drawn, mu, eta, bias, size
    (1, [7, 9], 0, 1, 0, 1), (1, [6, 7, 8, 9, 10, 1, 2, 3, 4, 5], 3, 2, 1, 1),
    (1, [6, 7, 8, 9, 10, 1, 2, 3, 4, 5], 0, 100, 0, 2),
    (2, [8], 0, 0.5, 0, 1), (2, [6, 10], 5, 4, 1, 1),
    (4, [7, 8, 9], 0, 1, 0, 1), (4, [1, 6, 9], 2, 30, 0, 1), (4, [10], 0.5, 10, 1, 2),
    (7, [6, 7, 8, 9, 10], 0, 1, 0, 1), (7, [8, 6], 20, 100, 1, 1), (7, [6, 9], 0, 1e-3, 0, 1),
    (12, [6, 10, 8], 0, 5, 1, 3), (12, [6, 7, 8, 9, 10], 1, 1000, 0, 1), (12, [9], 100, 1, 1, 1),
]


def lines():
    yield "/* Written by implicit_batch.py: do not edit. */\n/* clang-format off */"
    yield "static const struct {\n    uint32_t n, rank; /* of the rows */"
    yield "    uint32_t drawn[11]; /* ended by the label 0 */"
    yield "    double ridge, eta, bias, size;\n    double w[11][7], b[11], u[12];\n} golden[] = {"
    for n, drawn, mu, eta, bias, size in CASES:
        w, b, u = solve(n, drawn, mu, eta, bias, size)
        rows = ",\n      ".join("{" + ", ".join(f"{v:.12g}" for v in row) + "}" for row in w)
        rank = np.linalg.matrix_rank(problem(n, size)[0])
        yield f"    {{{n}, {rank},\n     {{{', '.join(map(str, drawn))}}},\n     {mu}, {eta}, {bias}, {size},\n     {{{rows}}},"
        yield "     {" + ", ".join(f"{v:.12g}" for v in b) + "},"
        yield "     {" + ", ".join(f"{v:.12g}" for v in u) + "}},"
    yield "};"


finish(lines(), relative=1e-9, absolute=1e-11)
