#!/usr/bin/python3
"""Tails of the chi-square distribution, by SciPy. Run as: chi_square.py > chi_square_golden.h; with that file as
argument it is compared."""
import sys

from scipy.stats import chi2


def lines():
    yield "/* Written by chi_square.py. */\n/* clang-format off */"
    yield "static const struct {\n    double x;\n    unsigned freedom;\n    double tail;\n} golden_tails[] = {"
    for freedom in (1, 2, 3, 4, 5, 10, 49, 50, 999, 2000):
        for x in (0.125, 1.0, freedom / 2, float(freedom), 1.5 * freedom + 10, 3.0 * freedom + 50):
            yield f"    {{{x!r}, {freedom}, {float(chi2.sf(x, freedom))!r}}},"
    yield "};\n/* clang-format on */"


def numbers(text):
    return [float(word) for line in text.splitlines() if line.startswith("    {") for word in
            line.strip(" {},").split(",")]


text = "\n".join(lines()) + "\n"
if len(sys.argv) > 1:
    committed = open(sys.argv[1]).read()
    old, new = numbers(committed), numbers(text)
    if len(old) != len(new) or any(abs(a - b) > 1e-9 * abs(b) for a, b in zip(old, new)):
        sys.exit(f"{sys.argv[1]} is not what this script writes")
else:
    sys.stdout.write(text)
