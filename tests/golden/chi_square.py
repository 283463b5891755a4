#!/usr/bin/python3
"""Tails of the chi-square distribution, in 700 decimal digits: one less the series of the lower incomplete gamma
function, all of whose terms are positive. Run as: chi_square.py > chi_square_golden.h; with that file as argument it is
compared."""
from golden import Decimal, finish, getcontext

# The smallest tail is about 1e-401, and the series tends to one less that.
getcontext().prec = 700


def arctan_inverse(n):
    """arctan(1 / n)"""
    total, power, k = Decimal(0), Decimal(1) / n, 0
    while True:
        before = total
        total += power / (2 * k + 1) if k % 2 == 0 else -power / (2 * k + 1)
        if total == before:
            return total
        power, k = power / (n * n), k + 1


ROOT_PI = (16 * arctan_inverse(5) - 4 * arctan_inverse(239)).sqrt()  # Machin's formula


def tail(x, freedom):
    a, h = Decimal(freedom) / 2, Decimal(x) / 2
    # h^a e^-h / Gamma(a + 1), from Gamma(1) = 1 or Gamma(1/2) = sqrt(pi)
    term = (-h).exp() if freedom % 2 == 0 else (-h).exp() / ROOT_PI / h.sqrt()
    for k in range((freedom + 1) // 2):
        term *= h / (a - k)
    total, n = Decimal(0), 0
    while True:
        before = total
        total += term
        if total == before:
            return 1 - total
        n += 1
        term *= h / (a + n)


def lines():
    yield "/* Written by chi_square.py. */\n/* clang-format off */"
    yield "static const struct {\n    double x;\n    unsigned freedom;\n    double tail;\n} golden_tails[] = {"
    for freedom in (1, 2, 3, 4, 5, 10, 49, 50, 999, 2000):
        for x in (0.125, 1.0, freedom / 2, float(freedom), 1.5 * freedom + 10, 3.0 * freedom + 50):
            yield f"    {{{x!r}, {freedom}, {float(tail(x, freedom))!r}}},"
    yield "};\n/* clang-format on */"


finish(lines())
