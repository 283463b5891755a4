#!/usr/bin/python3
"""Optima of softmax, one-vs-each and Bouchard's bound with a ridge, on a small problem: the weights by Newton's method in
double, the objective there in 40 decimal digits. Run as: optimum.py > optimum_golden.h; with that file as argument it is
compared. (optimum_data.py has those of real data.)

The problem is made by the formulas below, which test_trainer_optimum.c repeats; every value is a small multiple of a
power of two. Objective: mean loss + mu / (2 N) ||W||^2, the bias free.
"""
import math
from operator import mul

from golden import Decimal, digits, finish, sigmoid, solve

N, D, K, MU = 400, 8, 12, 1
x = [[((i * 37 + j * 101 + i * j * 13) % 64 - 32) / 32 for j in range(D)] for i in range(N)]
# a class for each row that its features say something about, and some noise
label = [(math.floor(4 * (x[i][0] + x[i][1] + 2)) + (i * 7 % 5 == 0)) % K for i in range(N)]


def alpha_of(z):
    """The alpha of Bouchard's bound, by Newton's method: sum sigma(z - alpha) = 1."""
    number = type(z[0])
    one = sigmoid if number is Decimal else lambda v: 1 / (1 + math.exp(-v))
    small = number("1e-25") if number is Decimal else 1e-14
    alpha = max(z)  # here the sum is at least a half; to the left of the root it is convex, but steps may go too far
    low, high = min(z) - 1, max(z) + len(z)
    while True:
        s = [one(v - alpha) for v in z]
        low, high = (alpha, high) if sum(s) > 1 else (low, alpha)
        step = (sum(s) - 1) / sum(v * (1 - v) for v in s)
        new = alpha + step
        if abs(step) < small:
            return new
        alpha = new if low < new < high else (low + high) / 2


def loss(kind, z, y):
    """Of Decimals."""
    if kind == "softmax":
        return sum(v.exp() for v in z).ln() - z[y]
    if kind == "one-vs-each":
        return sum((1 + (v - z[y]).exp()).ln() for k, v in enumerate(z) if k != y)
    alpha = alpha_of(z)
    return alpha + sum((1 + (v - alpha).exp()).ln() for v in z) - z[y]


def derivatives(kind, z, y):
    """Gradient and second derivatives with respect to the scores, in double."""
    if kind == "softmax":
        top = max(z)
        e = [math.exp(v - top) for v in z]
        g = [v / sum(e) for v in e]
        h = [[a * ((k == m) - b) for m, b in enumerate(g)] for k, a in enumerate(g)]
        g[y] -= 1
        return g, h
    h = [[0.0] * K for _ in range(K)]
    if kind == "one-vs-each":
        g = [0.0 if k == y else 1 / (1 + math.exp(z[y] - v)) for k, v in enumerate(z)]
        for k, v in enumerate(g):
            slope = v * (1 - v)
            h[k][k] += slope
            h[y][y] += slope
            if k != y:
                h[k][y] = h[y][k] = -slope
        g[y] = -sum(g)
        return g, h
    alpha = alpha_of(z)
    g = [1 / (1 + math.exp(alpha - v)) for v in z]
    slope = [v * (1 - v) for v in g]
    h = [[(k == m) * a - a * b / sum(slope) for m, b in enumerate(slope)] for k, a in enumerate(slope)]
    g[y] -= 1
    return g, h


def objective(kind, w, bias):
    """In decimal digits."""
    w = [[Decimal(v) for v in row] for row in w]
    total = Decimal(MU) / 2 * sum(v * v for row in w for v in row[:D])
    for row, y in zip(x, label):
        features = [Decimal(v) for v in row] + [Decimal(bias)]
        total += loss(kind, [sum(map(mul, weights, features)) for weights in w], y)
    return total / N


def optimum(kind, bias):
    columns = D + bias
    rows = [row + [1.0] * bias for row in x]
    # Of each pair of features their products, row by row.
    products = {(j, m): [row[j] * row[m] for row in rows] for j in range(columns) for m in range(j + 1)}
    by_feature = list(zip(*rows))
    w = [[0.0] * columns for _ in range(K)]
    for _ in range(60):
        found = [derivatives(kind, [sum(map(mul, weights, row)) for weights in w], y) for row, y in zip(rows, label)]
        gradient = [sum(map(mul, by_feature[j], (g[k] for g, _ in found))) + (MU * w[k][j] if j < D else 0)
                    for k in range(K) for j in range(columns)]
        hessian = [[0.0] * (K * columns) for _ in range(K * columns)]
        for k in range(K):
            for n in range(k + 1):
                second = [h[k][n] for _, h in found]
                for (j, m), product in products.items():
                    value = sum(map(mul, second, product))
                    for p, q in {(k * columns + j, n * columns + m), (k * columns + m, n * columns + j)}:
                        hessian[p][q] = hessian[q][p] = value
        for p in range(K * columns):
            # All biases may grow together at no cost: a little more keeps the matrix definite.
            hessian[p][p] += MU if p % columns < D else 1e-6
        step = solve(hessian, gradient)
        w = [[w[k][j] - step[k * columns + j] for j in range(columns)] for k in range(K)]
        if max(map(abs, step)) < 1e-6:  # what is left is of the order of its square
            break
    else:
        raise ArithmeticError(f"{kind}, bias {bias}: no convergence")
    return objective(kind, [row + [0.0] * (1 - bias) for row in w], bias)


def lines():
    yield "/* Written by optimum.py: do not edit. */"
    for kind in ("softmax", "one-vs-each", "bouchard"):
        for bias in (0, 1):
            yield f"#define SMALL_{kind.upper().replace('-', '_')}_BIAS_{bias} {digits(optimum(kind, bias))}"


finish(lines())
