#!/usr/bin/python3
"""What rankings are worth, by NumPy in double. Run as: metrics.py > metrics_golden.h; with that file as argument it is
compared.

The problem is made by the formulas below, which test_evaluate.c repeats. Definitions: Bhatia et al., The extreme
classification repository; propensities by Jain, Prabhu and Varma (2016).
"""
import numpy as np

from golden import finish

ROWS, CLASSES, TRAINING_ROWS, TOP = 60, 40, 5000, 7


def score(i, k):
    return (37 * i + 29 * k) % 101 / 8  # of a row all different: 101 is a prime


def labels(i):
    """None to seven labels; those from CLASSES on were never seen."""
    return sorted({(11 * i + 7 * j * j) % (CLASSES + 4) for j in range(i % 8)})


def count(k):
    return TRAINING_ROWS // (1 + k * k) if k < CLASSES - 3 else 0


def measures(a, b):
    c = (np.log(TRAINING_ROWS) - 1) * (b + 1) ** a
    counts = np.array([count(k) for k in range(CLASSES)] + [0] * 4, float)
    inverse = 1 + c * (counts + b) ** -a
    discount = 1 / np.log2(np.arange(TOP) + 2)
    columns = {name: [] for name in ("precision", "ndcg", "ps", "ps_best", "psn", "psn_best")}
    for i in range(ROWS):
        truth = labels(i)
        if not truth:
            continue
        order = np.argsort([-score(i, k) for k in range(CLASSES)], kind="stable")[:TOP]
        hit = np.isin(order, truth).astype(float)
        weight = inverse[order] * hit
        best = np.zeros(TOP)
        some = np.sort(inverse[truth])[::-1][:TOP]
        best[: len(some)] = some
        places = np.arange(1, TOP + 1)
        ideal = np.cumsum(discount)[np.minimum(places, len(truth)) - 1]
        columns["precision"].append(np.cumsum(hit) / places)
        columns["ndcg"].append(np.cumsum(hit * discount) / ideal)
        columns["ps"].append(np.cumsum(weight) / places)
        columns["ps_best"].append(np.cumsum(best) / places)
        columns["psn"].append(np.cumsum(weight * discount) / ideal)
        columns["psn_best"].append(np.cumsum(best * discount) / ideal)
    mean = {name: np.mean(rows, axis=0) for name, rows in columns.items()}
    return (("precision", mean["precision"]), ("ndcg", mean["ndcg"]), ("psp", mean["ps"] / mean["ps_best"]),
            ("psndcg", mean["psn"] / mean["psn_best"]))


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
            yield "     {" + ", ".join("%.15g" % value for value in values) + "},"
        yield "    },"
    yield "};"


finish(lines(), relative=1e-13)
