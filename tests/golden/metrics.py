#!/usr/bin/python3
"""What rankings are worth, in 40 decimal digits. Run as: metrics.py > metrics_golden.h; with that file as argument it is
compared.

The problem is made by the formulas below, which test_evaluate.c repeats. Definitions: Bhatia et al., The extreme
classification repository; propensities by Jain, Prabhu and Varma (2016).
"""
from itertools import accumulate

from golden import Decimal, digits, finish

ROWS, CLASSES, TRAINING_ROWS, TOP = 60, 40, 5000, 7


def score(i, k):
    return (37 * i + 29 * k) % 101 / 8  # of a row all different: 101 is a prime


def labels(i):
    """None to seven labels; those from CLASSES on were never seen."""
    return sorted({(11 * i + 7 * j * j) % (CLASSES + 4) for j in range(i % 8)})


def count(k):
    return TRAINING_ROWS // (1 + k * k) if k < CLASSES - 3 else 0


def measures(a, b):
    a, b = Decimal(a), Decimal(b)
    c = (Decimal(TRAINING_ROWS).ln() - 1) * (b + 1) ** a
    inverse = [1 + c * (count(k) + b) ** -a for k in range(CLASSES + 4)]
    discount = [Decimal(2).ln() / Decimal(place + 2).ln() for place in range(TOP)]
    names = ("precision", "ndcg", "ps", "ps_best", "psn", "psn_best")
    sums = {name: [Decimal(0)] * TOP for name in names}
    for i in range(ROWS):
        truth = labels(i)
        if not truth:
            continue
        order = sorted(range(CLASSES), key=lambda k: -score(i, k))[:TOP]
        hit = [int(k in truth) for k in order]
        weight = [inverse[k] * h for k, h in zip(order, hit)]
        best = (sorted((inverse[k] for k in truth), reverse=True) + [Decimal(0)] * TOP)[:TOP]
        ideal = [sum(discount[:min(place, len(truth))]) for place in range(1, TOP + 1)]
        for name, gains, discounted in zip(names, (hit, hit, weight, best, weight, best), (0, 1, 0, 0, 1, 1)):
            gained = accumulate(g * d for g, d in zip(gains, discount)) if discounted else accumulate(gains)
            for place, total in enumerate(gained):
                sums[name][place] += Decimal(total) / (ideal[place] if discounted else place + 1)
    rows = sum(1 for i in range(ROWS) if labels(i))
    ratio = {name: [p / q for p, q in zip(sums[name], sums[name + "_best"])] for name in ("ps", "psn")}
    return (("precision", [v / rows for v in sums["precision"]]), ("ndcg", [v / rows for v in sums["ndcg"]]),
            ("psp", ratio["ps"]), ("psndcg", ratio["psn"]))


def lines():
    yield "/* Written by metrics.py. */\n/* clang-format off */"
    yield "enum { RANKED_ROWS = %d, RANKED_CLASSES = %d, RANKED_TRAINING_ROWS = %d, RANKED_TOP = %d };" % (
        ROWS, CLASSES, TRAINING_ROWS, TOP)
    yield "/* A, B, then for each measure its value at 1, 2, ... */"
    yield "static const struct {"
    yield "    double a, b, precision[%d], ndcg[%d], psp[%d], psndcg[%d];" % ((TOP,) * 4)
    yield "} golden_ranks[] = {"
    for a, b in ((0.55, 1.5), (0.5, 0.4), (0.6, 2.6)):
        yield "    {%r, %r," % (a, b)
        for _, values in measures(a, b):
            yield "     {" + ", ".join(digits(value, 15) for value in values) + "},"
        yield "    },"
    yield "};"


finish(lines())
