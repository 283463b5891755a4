#!/usr/bin/python3
"""What data/test_transform.c expects of the rows of dataset_rows.txt and of the decimals of dataset_numbers.txt: all
transforms in 60 decimal digits, numbers as exact fractions, each result rounded to float32 once.

    dataset.py write FOLDER       writes dataset_transforms.txt, and the bits beside the decimals
    dataset.py compare FOLDER     fails unless both files are what it would write

The rows and the decimals themselves were drawn once: of the rows, a few features are in every row, some in none, two
rows are empty, and values have many sizes and both signs; of the decimals, many lie between two floats or beside that.
"""
import os
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 60

DESCRIPTIONS = ["", "truncate=11", "tfidf", "unit", "tfidf,unit", "unit,tfidf", "truncate=20,tfidf,unit",
                "tfidf,unit,truncate=20", "unit,truncate=25,tfidf,truncate=15,unit", "truncate=1000,unit", "products=7",
                "tfidf,unit,products=6", "truncate=9,products=1,unit", "unit,products=5,truncate=45,unit", "log",
                "log,tfidf,unit", "tfidf,log,log", "unit,log", "truncate=9,tfidf,products=6,log,unit"]
# Those that differ between sparse and dense rows.
STANDARD = {"sparse": ["standard", "log,standard", "tfidf,standard,unit", "truncate=9,products=6,standard",
                       "standard,products=7"],
            "dense": ["standard", "standard,unit", "log,standard,truncate=20"]}


def magnitude(bits):
    """The value of a positive float32."""
    e, m = bits >> 23, bits & 0x7FFFFF
    return Fraction(m + (0x800000 if e else 0)) * Fraction(2) ** ((e or 1) - 150)


def float32_bits(value):
    """Bits of the float32 nearest to a number that is not negative, ties to even."""
    low, high = 0, 0x7F800000
    while high - low > 1:  # the largest float that is not above
        middle = (low + high) // 2
        low, high = (middle, high) if magnitude(middle) <= value else (low, middle)
    half = (magnitude(low) + magnitude(low + 1)) / 2
    return low + (value > half or (value == half and low % 2 == 1))


def float32(value):
    """The float32 nearest to a Decimal, as a Decimal."""
    nearest = struct.unpack("<f", struct.pack("<I", float32_bits(Fraction(abs(value)))))[0]
    return Decimal(nearest).copy_sign(value)


def tfidf(rows, features):
    weights = [float32((Decimal(1 + len(rows)) / (1 + sum(1 for row in rows if j in row))).ln() + 1)
               for j in range(features)]
    return [{j: float32(value * weights[j]) for j, value in row.items()} for row in rows]


def log(rows):
    return [{j: float32((abs(value).ln() + 1).copy_sign(value)) if abs(value) > 1 else value for j, value in row.items()}
            for row in rows]


def unit(rows):
    norms = [sum(value * value for value in row.values()).sqrt() if row else None for row in rows]
    return [{j: float32(value / norm) for j, value in row.items()} for row, norm in zip(rows, norms)]


def standard(rows, features, dense):
    """The variance about the mean of all values, zeros among them; of sparse rows the mean is not subtracted."""
    columns = []
    for j in range(features):
        values = [row.get(j, Decimal(0)) for row in rows]
        mean = sum(values) / len(rows)
        scale = (sum((value - mean) ** 2 for value in values) / len(rows)).sqrt()
        columns.append((mean if dense else Decimal(0), scale if min(values) < max(values) else Decimal(1)))
    return [{j: float32((row.get(j, Decimal(0)) - mean) / scale) for j, (mean, scale) in enumerate(columns)
             if dense or j in row} for row in rows]


def products(rows, features, least):
    pairs = [(i, j) for i in range(features) for j in range(i + 1, features)
             if sum(1 for row in rows if i in row and j in row) >= least]
    return [row | {features + k: float32(row[i] * row[j]) for k, (i, j) in enumerate(pairs)
                   if i in row and j in row and float32(row[i] * row[j])} for row in rows], features + len(pairs)


def read_rows(path):
    with open(path, encoding="ascii") as file:
        _, features, _ = map(int, next(file).split())
        pairs = [[word.split(":") for word in line.split()[1:]] for line in file]
    return [{int(j): float32(Decimal(value)) for j, value in row} for row in pairs], features


def transforms(rows, features):
    for form, description in [("both", d) for d in DESCRIPTIONS] + [(f, d) for f in STANDARD for d in STANDARD[f]]:
        result, width = rows, features
        for step in filter(None, description.split(",")):
            if step == "tfidf":
                result = tfidf(result, width)
            elif step == "log":
                result = log(result)
            elif step == "standard":
                result = standard(result, width, form == "dense")
            elif step == "unit":
                result = unit(result)
            elif step.startswith("products"):
                result, width = products(result, width, int(step.split("=")[1]))
            else:
                width = min(width, int(step.split("=")[1]))
                result = [{j: value for j, value in row.items() if j < width} for row in result]
        yield f"{form} {width} {description}\n"
        for row in result:
            yield " ".join(f"{j}:{float(value):.9g}" for j, value in row.items() if value or form != "both") + "\n"


def numbers(path):
    with open(path, encoding="ascii") as file:
        texts = [line.split()[0] for line in file]
    for text in texts:
        yield f"{text} {float32_bits(abs(Fraction(text))) | (0x80000000 if text.startswith('-') else 0):08x}\n"


def main(action, folder):
    rows, features = read_rows(os.path.join(folder, "dataset_rows.txt"))
    for name, lines in (("dataset_transforms.txt", transforms(rows, features)),
                        ("dataset_numbers.txt", numbers(os.path.join(folder, "dataset_numbers.txt")))):
        lines, path = list(lines), os.path.join(folder, name)
        if action == "write":
            with open(path, "w", encoding="ascii") as file:
                file.writelines(lines)
            continue
        with open(path, encoding="ascii") as file:
            have = file.readlines()
        for number, (a, b) in enumerate(zip(have, lines), 1):
            if a != b:
                sys.exit(f"{path}, line {number}: {a.rstrip()}\nwhere this script writes: {b.rstrip()}")
        if len(have) != len(lines):
            sys.exit(f"{path} has {len(have)} lines where this script writes {len(lines)}")


if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
    sys.exit(__doc__)
main(*sys.argv[1:])
