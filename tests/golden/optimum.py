#!/usr/bin/python3
"""Optima of softmax, one-vs-each and Bouchard's bound with a ridge, by SciPy's L-BFGS in double.

Run as: optimum.py [BIBTEX_TRAIN.txt.gz [DELICIOUS_TRAIN.txt.gz]] > optimum_golden.h. Without a file its numbers are left
out.

The small problem is made by the formulas below, which test_trainer_optimum.c repeats; every value is a small multiple
of a power of two. Objective: mean loss + mu / (2 N) ||W||^2, the bias free.
"""
import gzip
import sys

import numpy as np
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import expit


def losses(kind, z, y):
    """Sum of the losses and its gradient with respect to the scores."""
    n = np.arange(len(y))
    if kind == "softmax":
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        total = e.sum(axis=1, keepdims=True)
        g = e / total
        loss = (np.log(total) + top)[:, 0] - z[n, y]
        g[n, y] -= 1
        return loss.sum(), g
    if kind == "bouchard":
        # alpha by bisection on sum sigma(z - alpha) = 1: below the smallest score plus log(K - 1) and above the largest
        low, high = z.min(axis=1) - 1, z.max(axis=1) + np.log(z.shape[1]) + 1
        for _ in range(80):
            middle = (low + high) / 2
            above = expit(z - middle[:, None]).sum(axis=1) > 1
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        alpha = (low + high) / 2
        g = expit(z - alpha[:, None])
        loss = alpha + np.logaddexp(0, z - alpha[:, None]).sum(axis=1) - z[n, y]
        g[n, y] -= 1
        return loss.sum(), g
    d = z - z[n, y][:, None]
    loss = np.logaddexp(0, d)
    loss[n, y] = 0
    g = 1 / (1 + np.exp(-np.clip(d, -700, 700)))
    g[n, y] = 0
    g[n, y] = -g.sum(axis=1)
    return loss.sum(), g


def optimum(kind, x, y, classes, mu, bias):
    n, d = x.shape
    columns = d + bias

    def f(flat):
        w = flat.reshape(classes, columns)
        z = x @ w[:, :d].T + (w[:, d] if bias else 0)
        loss, g = losses(kind, np.asarray(z), y)
        out = np.zeros_like(w)
        out[:, :d] = (x.T @ g).T + mu * w[:, :d]
        if bias:
            out[:, d] = g.sum(axis=0)
        return (loss + mu / 2 * (w[:, :d] ** 2).sum()) / n, out.ravel() / n

    r = minimize(f, np.zeros(classes * columns), jac=True, method="L-BFGS-B",
                 options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 30})
    assert np.abs(r.jac).max() < 1e-5, (kind, r.message, np.abs(r.jac).max())
    return r.fun


def emit(name, value):
    print(f"#define {name} {value:.9g}")


N, D, K = 400, 8, 12
i, j = np.arange(N)[:, None], np.arange(D)[None, :]
small = ((i * 37 + j * 101 + i * j * 13) % 64 - 32) / 32.0
# a class for each row that its features say something about, and some noise
label = ((np.floor(4 * (small[:, 0] + small[:, 1] + 2)).astype(int) + (np.arange(N) * 7 % 5 == 0)) % K).astype(int)

print("/* Written by optimum.py: do not edit. */")
for kind in ("softmax", "one-vs-each", "bouchard"):
    for bias in (0, 1):
        emit(f"SMALL_{kind.upper().replace('-', '_')}_BIAS_{bias}", optimum(kind, small, label, K, 1.0, bias))


def read(path):
    """First labels, numbered by those that occur, and rows of unit length."""
    rows, labels = [], []
    with gzip.open(path, "rt") as file:
        _, d, _ = map(int, next(file).split())
        for line in file:
            head, *pairs = line.rstrip("\n").split(" ")
            if head == "" or ":" in head:
                continue
            labels.append(int(head.split(",")[0]))
            rows.append({int(p.split(":")[0]): float(p.split(":")[1]) for p in pairs if p})
    x = scipy.sparse.lil_matrix((len(rows), d))
    for r, values in enumerate(rows):
        length = np.sqrt(sum(v * v for v in values.values()))
        for c, v in values.items():
            x[r, c] = v / length
    return x.tocsr(), np.unique(labels, return_inverse=True)[1]


for path, name, kinds in zip(sys.argv[1:], ("BIBTEX", "DELICIOUS"),
                             (("softmax", "one-vs-each", "bouchard"), ("softmax",))):
    x, y = read(path)
    for kind in kinds:
        emit(f"{name}_{kind.upper().replace('-', '_')}", optimum(kind, x, y, y.max() + 1, 1.0, 0))
    emit(f"{name}_CLASSES", y.max() + 1)
    emit(f"{name}_ROWS", len(y))
