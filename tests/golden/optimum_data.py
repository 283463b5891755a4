#!/usr/bin/python3
"""Optima of softmax, one-vs-each and Bouchard's bound with a ridge on bibtex and delicious, by SciPy's L-BFGS in double.
Run as: optimum_data.py > optimum_data_golden.h; with that file as argument it is compared: all of it, about a minute, with
$XSM_TEST_FULL, otherwise softmax on bibtex.

The data lie in $XSM_DATA or ../shared/data; where they do not, this says so and compares nothing. Objective: mean loss +
mu / (2 N) ||W||^2, without biases.
"""
import gzip
import os
import sys

from golden import finish

DATA = os.environ.get("XSM_DATA") or os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "shared", "data")
SETS = {name: os.path.join(DATA, name, name + "_train.txt.gz") for name in ("bibtex", "delicious")}
for path in SETS.values():
    if not os.path.exists(path):
        print(f"no real data at {path} (set XSM_DATA): skipped", file=sys.stderr)
        sys.exit(len(sys.argv) == 1)

try:
    import numpy as np
    import scipy.sparse
    from scipy.optimize import minimize
    from scipy.special import expit
except ImportError as error:
    print(f"{error} (Debian: python3-scipy): skipped", file=sys.stderr)
    sys.exit(77)


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
        # alpha by Newton's method on sum sigma(z - alpha) = 1, by halves where that leaves the bracket: below the smallest
        # score plus log(K - 1) and above the largest
        low, high = z.min(axis=1) - 1, z.max(axis=1) + np.log(z.shape[1]) + 1
        alpha = (low + high) / 2
        for _ in range(80):
            s = expit(z - alpha[:, None])
            excess = s.sum(axis=1) - 1
            low, high = np.where(excess > 0, alpha, low), np.where(excess > 0, high, alpha)
            step = alpha + excess / (s * (1 - s)).sum(axis=1)
            step = np.where((step > low) & (step < high), step, (low + high) / 2)
            moved, alpha = np.abs(step - alpha).max(), step
            if moved < 1e-13:
                break
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


def optimum(kind, x, y, classes, mu):
    n, d = x.shape

    def f(flat):
        w = flat.reshape(classes, d)
        loss, g = losses(kind, np.asarray(x @ w.T), y)
        return (loss + mu / 2 * (w ** 2).sum()) / n, ((x.T @ g).T + mu * w).ravel() / n

    r = minimize(f, np.zeros(classes * d), jac=True, method="L-BFGS-B",
                 options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 30})
    assert np.abs(r.jac).max() < 1e-5, (kind, r.message, np.abs(r.jac).max())
    return r.fun


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
    starts = np.cumsum([0] + [len(values) for values in rows])
    columns = np.concatenate([list(values) for values in rows])
    lengths = np.sqrt([sum(v * v for v in values.values()) for values in rows])
    numbers = np.concatenate([list(values.values()) for values in rows]) / np.repeat(lengths, np.diff(starts))
    return scipy.sparse.csr_matrix((numbers, columns, starts), shape=(len(rows), d)), np.unique(labels, return_inverse=True)[1]


ALL = (("bibtex", ("softmax", "one-vs-each", "bouchard")), ("delicious", ("softmax",)))
SOME = (("bibtex", ("softmax",)),)


def lines(sets):
    yield "/* Written by optimum_data.py: do not edit. */"
    for name, kinds in sets:
        x, y = read(SETS[name])
        for kind in kinds:
            yield f"#define {name.upper()}_{kind.upper().replace('-', '_')} {optimum(kind, x, y, y.max() + 1, 1.0):.9g}"
        yield f"#define {name.upper()}_CLASSES {y.max() + 1}"
        yield f"#define {name.upper()}_ROWS {len(y)}"


part = len(sys.argv) > 1 and "XSM_TEST_FULL" not in os.environ
finish(lines(SOME if part else ALL), relative=1e-8, part=part)
