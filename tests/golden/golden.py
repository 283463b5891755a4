"""Headers of golden values: what each script here ends with.

The values are computed in decimal arithmetic of far more digits than are written, whose every operation is rounded
correctly, so that no processor and no release of a library changes them: headers are compared exactly. A script that
computes in double names the tolerance with which it compares.
"""
import math
import re
import sys
from decimal import Decimal, getcontext

getcontext().prec = 40

NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9a-f.]+p[+-]?\d+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.IGNORECASE)


def value(word):
    return float.fromhex(word) if "x" in word else float(word)


def digits(number, count=12):
    """A number as C writes it with %.*g."""
    return f"{float(number):.{count}g}"


def solve(matrix, right):
    """x with matrix x = right, for a symmetric positive definite matrix; Decimals or floats."""
    n = len(right)
    rows = [list(row) + [r] for row, r in zip(matrix, right)]
    for i, pivot in enumerate(rows):
        assert pivot[i] > 0
        for row in rows[i + 1:]:
            factor = row[i] / pivot[i]
            if factor:
                row[i:] = [a - factor * b for a, b in zip(row[i:], pivot[i:])]
    x = [0] * n
    for i in range(n - 1, -1, -1):
        x[i] = (rows[i][n] - sum(a * b for a, b in zip(rows[i][i + 1:n], x[i + 1:]))) / rows[i][i]
    return x


def sigmoid(x):
    """1 / (1 + e^-x) of a Decimal."""
    return 1 / (1 + (-x).exp())


def close(a, b, relative):
    return a == b or math.isclose(value(a), value(b), rel_tol=relative)


def finish(lines, relative=0.0, part=False):
    """Without arguments writes the header; with a file as argument compares with that instead, numbers as closely as is
    said and all else exactly. If `lines` are a part of the header, those macros alone are compared."""
    text = "\n".join(lines) + "\n"
    if len(sys.argv) == 1:
        sys.stdout.write(text)
        return
    with open(sys.argv[1], encoding="utf-8") as header:
        have = header.read()
    if part:
        macros = {line.split()[1] for line in text.splitlines() if line.startswith("#define ")}
        have = "".join(line for line in have.splitlines(True) if not line.startswith("#define ") or line.split()[1] in macros)
    found, wanted = NUMBER.findall(have), NUMBER.findall(text)
    for a, b in zip(found, wanted):
        if not close(a, b, relative):
            sys.exit(f"{sys.argv[1]} has {a} where this script writes {b}")
    if len(found) != len(wanted) or NUMBER.sub("0", have) != NUMBER.sub("0", text):
        sys.exit(f"{sys.argv[1]} differs from what this script writes")
    if relative == 0 and have != text:
        sys.exit(f"{sys.argv[1]} has a number that this script writes differently")


__all__ = ["Decimal", "digits", "finish", "getcontext", "sigmoid", "solve"]
