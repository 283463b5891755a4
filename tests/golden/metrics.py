#!/usr/bin/python3
"""What rankings are worth, in 40 decimal digits. Run as: metrics.py > metrics_golden.h; with that file as argument it is
compared.

The problem is made by the formulas below, which test_evaluate.c repeats. Definitions: Bhatia et al., The extreme
classification repository; propensities by Jain, Prabhu and Varma (2016).
"""
from fractions import Fraction
from itertools import accumulate

from golden import Decimal, digits, finish

ROWS, CLASSES, TRAINING_ROWS, TOP = 60, 40, 5000, 7


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


def decimals(fraction):
    return digits(decimal(fraction), 15)


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


def first_ranks():
    """recall, hits, MRR"""
    sums = [[Fraction(0)] * TOP for _ in range(3)]
    for i in range(ROWS):
        truth = labels(i)
        order = sorted(range(CLASSES), key=lambda k: -score(i, k))[:TOP]
        for k in range(1, TOP + 1 if truth else 0):
            hit = [int(c in truth) for c in order[:k]]
            for sum_, gain in zip(sums, (Fraction(sum(hit), len(truth)), max(hit),
                                         Fraction(1, 1 + hit.index(1)) if any(hit) else 0)):
                sum_[k - 1] += gain
    rows = sum(1 for i in range(ROWS) if labels(i))
    return [[value / rows for value in sum_] for sum_ in sums]


def f1(least):
    """Micro and macro F1 where classes of that score are predicted, None: the best; classes of the macro mean, pairs of
    confused classes, the most frequent. An unseen label is missed."""
    count, pairs = {}, {}
    for i in range(ROWS):
        truth = labels(i)
        best = max(range(CLASSES), key=lambda k: score(i, k))
        predicted = [k for k in range(CLASSES) if (k == best if least is None else score(i, k) >= least)] if truth else []
        for k in set(truth) | set(predicted):
            labelled, given, right = count.get(k, (0, 0, 0))
            count[k] = labelled + (k in truth), given + (k in predicted), right + (k in truth and k in predicted)
        for pair in ((k, j) for k in truth for j in predicted if k < CLASSES and k not in predicted and j not in truth):
            pairs[pair] = pairs.get(pair, 0) + 1
    labelled, given, right = (sum(c[i] for c in count.values()) for i in range(3))
    each = [Fraction(2 * r, n + g) for k, (n, g, r) in count.items() if k < CLASSES]
    worst = min(pairs, key=lambda pair: (-pairs[pair], pair))
    return (Fraction(2 * right, labelled + given), sum(each) / len(each), len(each), len(pairs), *worst, pairs[worst])


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
    for name, values in zip(("recall", "hits", "reciprocal_rank"), first_ranks()):
        yield "static const double golden_%s[] = {%s};" % (name, ", ".join(decimals(v) for v in values))
    yield "/* The score and the probability that predicts a class, 0: the best alone; F1, its classes; pairs, the first. */"
    yield "static const struct {"
    yield "    double score, probability, micro, macro;"
    yield "    int counted, found, label, predicted, rows;"
    yield "} golden_f1[] = {"
    for least in (None, Fraction(95, 16), Fraction(183, 16)):
        probability = "0" if least is None else digits(1 / (1 + (-decimal(least)).exp()), 17)
        micro, macro, *rest = f1(least)
        yield "    {%s, %s, %s, %s, %s}," % (float(least or 0), probability, decimals(micro), decimals(macro),
                                             ", ".join(map(str, rest)))
    yield "};"


finish(lines())
