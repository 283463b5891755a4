"""NumPy files and caches as NumPy itself sees them: what it saves is read, and what is written it loads."""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

xsoftmax = os.path.abspath(sys.argv[1])
random = numpy.random.default_rng(1)
values = (random.standard_normal((7, 5)) * 10.0 ** random.integers(-30, 30, (7, 5))).astype(numpy.float32)
values[2] = 0
values[:, 3] = [0, 1, -1, 0.5, 3, 1e6, 1.0 / 3]
labels = numpy.array([3, -7, 3, 2 ** 40, 0, 0, 5])


def convert(*arguments):
    done = subprocess.run([xsoftmax, "convert", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"convert {' '.join(arguments)}: {done.stderr}")


def rows(path):
    """Values and labels of a csv that was written: float32 must come back from its decimal digits."""
    with open(path) as file:
        lines = [line.rstrip("\n").split(",") for line in file][1:]
    return numpy.array([[numpy.float32(v) for v in line[:-1]] for line in lines]), [int(line[-1]) for line in lines]


def same(what, a, b):
    if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
        sys.exit(f"{what}: not the same: {a} and {b}")
    print("ok", what)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    numpy.save("labels.npy", labels)
    for what, array in (("float32", values), ("float64", values.astype(numpy.float64))):
        numpy.save("matrix.npy", array)
        convert("--data", "matrix.npy", "--labels-from", "labels.npy", "--to", "csv", "--output", "rows.csv")
        read, named = rows("rows.csv")
        same(f"{what} read", values + 0, read)
        assert named == labels.tolist(), named
    for dtype in (numpy.int8, numpy.uint8, numpy.int16, numpy.uint32, numpy.float32, bool):
        small = (labels % 2).astype(dtype)
        numpy.save("small.npy", small[:, None] if dtype is numpy.int16 else small)
        convert("--data", "matrix.npy", "--labels-from", "small.npy", "--to", "csv", "--output", "rows.csv")
        assert rows("rows.csv")[1] == small.astype(int).tolist(), dtype
    numpy.save("joined.npy", numpy.column_stack([values[:, :2], labels % 100, values[:, 2:]]).astype(numpy.float64))
    convert("--data", "joined.npy", "--label-column", "2", "--to", "npy", "--output", "out.npy", "--labels-to", "out-labels.npy")
    same("matrix written", values, numpy.load("out.npy"))
    same("labels written", labels % 100, numpy.load("out-labels.npy"))
    convert("--data", "matrix.npy", "--labels-from", "labels.npy", "--to", "cache", "--output", "cache")
    with open("cache", "rb") as file:
        whole = file.read()
    length = struct.unpack("<Q", whole[:8])[0]
    begin, end = json.loads(whole[8:8 + length])["values"]["data_offsets"]
    same("cache", values, numpy.frombuffer(whole[8 + length:][begin:end], numpy.float32).reshape(7, 5))
