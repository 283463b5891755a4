#!/usr/bin/python3
"""Tails of the chi-square distribution, by SciPy. Run as: chi_square.py > chi_square_golden.h; with that file as
argument it is compared."""
from scipy.stats import chi2

from golden import finish


def lines():
    yield "/* Written by chi_square.py. */\n/* clang-format off */"
    yield "static const struct {\n    double x;\n    unsigned freedom;\n    double tail;\n} golden_tails[] = {"
    for freedom in (1, 2, 3, 4, 5, 10, 49, 50, 999, 2000):
        for x in (0.125, 1.0, freedom / 2, float(freedom), 1.5 * freedom + 10, 3.0 * freedom + 50):
            yield f"    {{{x!r}, {freedom}, {float(chi2.sf(x, freedom))!r}}},"
    yield "};\n/* clang-format on */"


finish(lines(), relative=1e-9)
