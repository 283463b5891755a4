#!/usr/bin/python3
"""The coefficients of lib/kernels/vector_solve.h: polynomials through Chebyshev's points, in 60 decimal digits.

    vector_solve.py             prints them and the largest error
    vector_solve.py HEADER      fails unless all of them are in the header, and but for powers of two nothing else is
"""
import math
import re
import sys
from decimal import Decimal, getcontext

getcontext().prec = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def power(x, k):
    return x**k if k else Decimal(1)


def cosine(x):
    total = term = Decimal(1)
    for k in range(1, 60):
        term = -term * x * x / ((2 * k - 1) * (2 * k))
        total += term
    return total


def interpolate(f, low, high, count):
    """Coefficients of the polynomial through f at Chebyshev's `count` points of [low, high], by divided differences."""
    x = [(low + high) / 2 + (high - low) / 2 * cosine(PI * (2 * i + 1) / (2 * count)) for i in range(count)]
    c = [f(v) for v in x]
    for j in range(1, count):
        for i in range(count - 1, j - 1, -1):
            c[i] = (c[i] - c[i - 1]) / (x[i] - x[i - j])
    p = [Decimal(0)] * count
    for i in range(count - 1, -1, -1):
        p = [(p[k - 1] if k else Decimal(0)) - x[i] * p[k] for k in range(count)]
        p[0] += c[i]
    return p


def log_series(z):
    return sum(Decimal(2) / (2 * k + 3) * power(z, k) for k in range(60))


def exp_series(r):
    return sum(power(r, k) / math.factorial(k + 2) for k in range(40))


def error(p, f, low, high, weight):
    """Largest |rounded polynomial - f| * weight."""
    points = [low + (high - low) * i / 400 for i in range(401)]
    return max(abs((sum(Decimal(c) * power(x, k) for k, c in enumerate(p)) - f(x)) * weight(x)) for x in points)


def main():
    ln2 = Decimal(2).ln()
    root = (Decimal(2).sqrt() - 1) / (Decimal(2).sqrt() + 1)
    top = root * root + Decimal("1e-7")
    log_p = [float(c) for c in interpolate(log_series, Decimal(0), top, 7)]
    exp_q = [float(c) for c in interpolate(exp_series, -ln2 / 2, ln2 / 2, 11)]
    high = float(int(ln2 * 2**42)) / 2**42
    constants = {
        "log": log_p,
        "exp": exp_q,
        "log2(e), ln 2, ln 2 high, ln 2 low": [float(1 / ln2), float(ln2), high, float(ln2 - Decimal(high))],
    }
    if len(sys.argv) == 1:
        for name, values in constants.items():
            print(name, [v.hex() for v in values])
        print("log lacks %.1e of it" % error(log_p, log_series, Decimal(0), top, lambda z: z / 2))
        print("exp - 1 lacks %.1e of it" % error(exp_q, exp_series, -ln2 / 2, ln2 / 2, abs))
        return 0
    with open(sys.argv[1], encoding="utf-8") as header:
        texts = re.findall(r"0x[0-9a-f.]+p[+-]?[0-9]+", header.read())
    found, wanted = {float.fromhex(text) for text in texts}, {v for values in constants.values() for v in values}
    # The header scales some by powers of two.
    known = {math.frexp(v)[0] for v in wanted} | {0.5, 0.75}
    wrong = [f"{v.hex()} is not in" for v in wanted - found]
    wrong += [f"{text} does not belong in" for text in texts if math.frexp(float.fromhex(text))[0] not in known]
    for words in wrong:
        print(words, sys.argv[1])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
