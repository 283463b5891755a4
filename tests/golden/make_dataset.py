#!/usr/bin/env python3
"""Writes dataset_rows.txt, dataset_transforms.txt and dataset_numbers.txt for test_data_transform.c, from NumPy and
Python's exact fractions alone. Run it in this folder; the files are committed."""
from fractions import Fraction

import numpy as np

rng = np.random.default_rng(20240607)
rows, features, labels = 40, 30, 9

# Rows: a few features are in every row, some in none; rows 7 and 31 are empty; values of many sizes and both signs.
x = rng.lognormal(0, 2, (rows, features)) * rng.choice([-1, 1], (rows, features))
x[rng.random((rows, features)) > np.linspace(1, 0.02, features)] = 0
x[:, [5, 17]] = 0
x[[7, 31]] = 0
x = x.astype(np.float32)
x[3, 2], x[4, 2] = np.float32(1e-30), np.float32(3e30)
with open("dataset_rows.txt", "w") as f:
    f.write(f"{rows} {features} {labels}\n")
    for i in range(rows):
        values = "".join(f" {j}:{x[i, j]:.9g}" for j in range(features) if x[i, j] != 0)
        f.write(f"{rng.integers(labels)}{values}\n")


def tfidf(a):
    idf = np.log((1 + len(a)) / (1 + (a != 0).sum(axis=0))) + 1
    return a * idf.astype(np.float32)


def unit(a):
    norm = np.sqrt((a.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return np.where(norm > 0, a / np.where(norm > 0, norm, 1), a).astype(np.float32)


steps = {"tfidf": tfidf, "unit": unit}
with open("dataset_transforms.txt", "w") as f:
    for description in ["", "truncate=11", "tfidf", "unit", "tfidf,unit", "unit,tfidf", "truncate=20,tfidf,unit",
                        "tfidf,unit,truncate=20", "unit,truncate=25,tfidf,truncate=15,unit", "truncate=1000,unit"]:
        a = x
        for step in filter(None, description.split(",")):
            a = a[:, :int(step[9:])] if step.startswith("truncate=") else steps[step](a)
        f.write(f"transform {a.shape[1]} {description}\n")
        for row in a:
            f.write(" ".join(f"{j}:{v:.9g}" for j, v in enumerate(row) if v != 0) + "\n")


def to_float32(text):
    """Bits of the float32 nearest to a decimal, ties to even, by exact arithmetic."""
    value = abs(Fraction(text))
    low, high = 0, 0x7F800000
    def exact(bits):
        e, m = bits >> 23, bits & 0x7FFFFF
        return Fraction(m + (0x800000 if e else 0)) * Fraction(2) ** ((e or 1) - 150)
    while high - low > 1:  # the largest float that is not above
        middle = (low + high) // 2
        low, high = (middle, high) if exact(middle) <= value else (low, middle)
    half = (exact(low) + exact(low + 1)) / 2
    bits = low + (value > half or (value == half and low % 2 == 1))
    return bits | (0x80000000 if text.startswith("-") else 0)


with open("dataset_numbers.txt", "w") as f:
    texts = ["0", "-0.0", "1", "0.1", "1e-45", "7.1e-46", "7e-46", "3.4028235e38", "16777217", "16777219"]
    for _ in range(150):
        texts.append(repr(float(rng.normal() * 10.0 ** rng.integers(-44, 37))))
        texts.append(f"{rng.integers(10**6)}.{rng.integers(10**9)}")
        texts.append(f"{rng.integers(10**18)}e{rng.integers(-60, 20)}")
        bits = int(rng.integers(0x00000001, 0x7F7FFFFF))  # between two floats, and one unit of a far digit beside it
        a, b = np.array([bits, bits + 1], np.uint32).view(np.float32)
        middle = Fraction(float(a)) / 2 + Fraction(float(b)) / 2
        digits = str(middle * 10**170 // 1)
        short = digits.rstrip("0")
        texts.append(f"{short}e{len(digits) - len(short) - 170}")
        texts.append(f"{short}0001e{len(digits) - len(short) - 174}")
        texts.append(f"{int(short) * 10000 - 1}e{len(digits) - len(short) - 174}")
    for text in texts:
        f.write(f"{text} {to_float32(text):08x}\n")
