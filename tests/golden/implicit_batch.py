#!/usr/bin/python3
"""Implicit steps of several examples: the whole proximal objective, dense, minimised by Newton's method in 40 decimal
digits.

Run as: implicit_batch.py > implicit_batch_golden.h; with that file as argument it is compared. The problems are made by
the formulas below, which test_estimator_batch.c repeats; every value is a small multiple of a power of two. Over all
weights, biases and the u of the batch:
    eta (1/n sum_i f_i + mu/(2N) |W|^2) + |W - W0|^2/2 + |b - b0|^2/2 + |u - u0|^2/2,
    f_i = u_i + e^-u_i (1 + sum_{k in L - y_i} e^(z_k - z_y) + (K - |L|)/|C| sum_{k in C} e^(z_k - z_y)).
"""
from fractions import Fraction

from golden import Decimal, digits, finish, solve

ROWS, D, K = 60, 7, 11


def problem(n, size):
    x = [[Decimal((i * 37 + j * 101 + i * j * 13) % 64 - 32) / 32 for j in range(D)] for i in range(n)]
    if n > 2:
        x[2] = [Decimal(0)] * D  # a row of zeros
    if n > 3:
        x[3] = x[0]  # the same row twice
    if n > 5:
        x[5] = [a / 2 - b for a, b in zip(x[1], x[4])]  # and one that depends on two others
    y = [i * 5 // 2 % 6 for i in range(n)]  # labels that repeat
    w0 = [[size * Decimal((k * 29 + j * 53 + k * j * 7) % 64 - 32) / 32 for j in range(D)] for k in range(K)]
    b0 = [size * Decimal(k * 19 % 16 - 8) / 16 for k in range(K)]
    u0 = [Decimal(i * 3 % 8) / 4 for i in range(n)]
    return x, y, w0, b0, u0


def rank(rows):
    rows, found = [[Fraction(value) for value in row] for row in rows], 0
    for j in range(D):
        pivot = next((row for row in rows if row[j]), None)
        if pivot:
            found += 1
            rows.remove(pivot)
            rows = [[a - row[j] / pivot[j] * b for a, b in zip(row, pivot)] for row in rows]
    return found


def minimise(n, drawn, mu, eta, bias, size):
    x, y, w0, b0, u0 = problem(n, size)
    labels = set(y)
    drawn = [k for k in drawn if k not in labels]
    factor = {k: Decimal(1) for k in labels}
    factor.update((k, Decimal(K - len(labels)) / len(drawn)) for k in drawn)
    classes = sorted(factor)
    eta, ridge = Decimal(eta), Decimal(eta) * Decimal(mu) / ROWS

    # The unknowns of each class are its weights and, at their end, its bias, which goes with a feature that is 1 or,
    # without biases, 0. Only the classes above share any term; u come last.
    old = [value for k in classes for value in w0[k] + [b0[k]]] + u0
    size_of_class, first_u = D + 1, (D + 1) * len(classes)
    shrink = ([ridge] * D + [Decimal(0)]) * len(classes) + [Decimal(0)] * n
    rows = [row + [Decimal(bias)] for row in x]

    def exponentials(t):
        """Of each row i those of the classes k, factor e^(z_k - z_y - u)."""
        for i, row in enumerate(rows):
            z = {k: sum(a * b for a, b in zip(row, t[c * size_of_class:])) for c, k in enumerate(classes)}
            yield [factor[k] * (z[k] - z[y[i]] - t[first_u + i]).exp() if k != y[i] else Decimal(0) for k in classes]

    def objective(t):
        value = sum(t[first_u + i] + (-t[first_u + i]).exp() + sum(e) for i, e in enumerate(exponentials(t))) * eta / n
        return value + sum(s * a * a + (a - b) ** 2 for s, a, b in zip(shrink, t, old)) / 2

    def derivatives(t):
        gradient = [s * a + a - b for s, a, b in zip(shrink, t, old)]
        hessian = [[1 + shrink[p] if p == q else Decimal(0) for q in range(len(t))] for p in range(len(t))]
        for i, e in enumerate(exponentials(t)):
            total, rest, own, place = sum(e), (-t[first_u + i]).exp(), classes.index(y[i]), first_u + i
            # Of row i's scores: first and second derivatives, then those with u_i.
            first = [-total if c == own else value for c, value in enumerate(e)]
            for c, value in enumerate(first):
                for j, feature in enumerate(rows[i]):
                    p = c * size_of_class + j
                    gradient[p] += eta / n * value * feature
                    hessian[p][place] -= eta / n * value * feature
                    hessian[place][p] -= eta / n * value * feature
            gradient[place] += eta / n * (1 - total - rest)
            hessian[place][place] += eta / n * (total + rest)
            pairs = [(c, c, value) for c, value in enumerate(e)] + [(own, own, total)]
            pairs += [pair for c, value in enumerate(e) if c != own for pair in ((c, own, -value), (own, c, -value))]
            for c, d, value in pairs:
                for j, left in enumerate(rows[i]):
                    for m, right in enumerate(rows[i]):
                        hessian[c * size_of_class + j][d * size_of_class + m] += eta / n * value * left * right
        return gradient, hessian

    # u at its best for the old weights, where no exponent is large; then Newton's steps, shorter ones where need be.
    t = old[:first_u] + [Decimal(0)] * n
    t[first_u:] = [(1 + sum(e)).ln() for e in exponentials(t)]
    while True:
        gradient, hessian = derivatives(t)
        step = solve(hessian, gradient)
        fall, value, length = sum(a * b for a, b in zip(gradient, step)), objective(t), Decimal(1)
        if fall < Decimal("1e-36"):
            break
        while True:
            new = [a - length * b for a, b in zip(t, step)]
            if objective(new) <= value - length * fall / 4:
                break
            length /= 2
        t = new

    w = [[value / (1 + ridge) for value in row] for row in w0]
    b = list(b0)
    for c, k in enumerate(classes):
        w[k] = t[c * size_of_class:c * size_of_class + D]
        b[k] = t[c * size_of_class + D]
    return w, b, t[first_u:]


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
        w, b, u = minimise(n, drawn, mu, eta, bias, size)
        rows = ",\n      ".join("{" + ", ".join(digits(v) for v in row) + "}" for row in w)
        yield f"    {{{n}, {rank(problem(n, size)[0])},\n     {{{', '.join(map(str, drawn))}}},\n     {mu}, {eta}, {bias}, {size},\n     {{{rows}}},"
        yield "     {" + ", ".join(digits(v) for v in b) + "},"
        yield "     {" + ", ".join(digits(v) for v in u) + "}},"
    yield "};"


finish(lines())
