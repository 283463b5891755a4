#!/usr/bin/python3
"""Golden values of the Wright omega function on the real line, the w with w + ln w = t: by Newton's method in 60
decimal digits. Run as: omega.py > omega_golden.h; with that file as argument it is compared.

The arguments lie where the implementation changes its method, and all over [-745, 1e8].
"""
import math

from golden import Decimal, finish, getcontext

getcontext().prec = 60


def omega(t):
    """s = ln w is the root of s + e^s - t, which is convex: from the right of it Newton's steps come down to it."""
    t = Decimal(t)
    s = t.ln() if t > 1 else t
    while True:
        w = s.exp()
        step = (s + w - t) / (1 + w)
        s -= step
        if abs(step) < Decimal("1e-50"):
            return s.exp()


def powers(low, high, count):
    """`count` numbers from 10^low to 10^high at equal ratios."""
    return [float(10 ** (low + (high - low) * i / (count - 1))) for i in range(count)]


edges = [0.0, 1.0, 4.0, -36.8, -1.0, 2.0, math.e + 1, -18.3, 38.0, -700.0, -708.3, -708.4, -744.0]
near = [math.nextafter(t, side) for t in edges for side in (-math.inf, math.inf)]
grid = [-45 + 7.5 * i for i in range(13)]
grid += [-t for t in powers(Decimal(-8), Decimal(744).log10(), 8)] + powers(Decimal(-8), Decimal(8), 12)
points = sorted(set(edges + near + grid))


def lines():
    yield "/* Written by omega.py: do not edit. */\n/* clang-format off */"
    yield "static const double omega_golden[][2] = {"
    for t in points:
        yield "    {%s, %s}," % (t.hex(), float(omega(t)).hex())
    yield "};"


finish(lines())
