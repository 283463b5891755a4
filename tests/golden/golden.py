"""Headers of golden values: what each script here ends with."""
import math
import re
import sys

NUMBER = re.compile(r"(?<![\w.])-?(?:0x[0-9a-f.]+p[+-]?\d+|\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.IGNORECASE)


def value(word):
    return float.fromhex(word) if "x" in word else float(word)


def close(a, b, relative, absolute):
    return a == b or math.isclose(value(a), value(b), rel_tol=relative, abs_tol=absolute)


def finish(lines, relative=0.0, absolute=0.0):
    """Without arguments writes the header; with a file as argument compares with that instead, numbers as closely as is
    said (last digits may differ between releases of NumPy) and all else exactly."""
    text = "\n".join(lines) + "\n"
    if len(sys.argv) == 1:
        sys.stdout.write(text)
        return
    with open(sys.argv[1], encoding="utf-8") as header:
        have = header.read()
    found, wanted = NUMBER.findall(have), NUMBER.findall(text)
    for a, b in zip(found, wanted):
        if not close(a, b, relative, absolute):
            sys.exit(f"{sys.argv[1]} has {a} where this script writes {b}")
    if len(found) != len(wanted) or NUMBER.sub("0", have) != NUMBER.sub("0", text):
        sys.exit(f"{sys.argv[1]} differs from what this script writes")
