"""NumPy files and caches as NumPy itself sees them: what it saves is read, and what is written it loads."""
import gzip
import io
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


def convert(*arguments, given=b""):
    done = subprocess.run([xsoftmax, "convert", *arguments], capture_output=True, input=given)
    if done.returncode:
        sys.exit(f"convert {' '.join(arguments)}: {done.stderr.decode()}")


def refused(says, *arguments):
    """A run that must fail, with these words."""
    done = subprocess.run([xsoftmax, *arguments], capture_output=True, input=b"")
    if done.returncode != 1 or says not in done.stderr.decode():
        sys.exit(f"{' '.join(arguments)}: {done.returncode}, {done.stderr.decode()}, not {says}")


def noted(says, *arguments):
    """A run that must say these words, or no note where there are none."""
    done = subprocess.run([xsoftmax, *arguments], capture_output=True, input=b"")
    text = done.stderr.decode()
    if done.returncode or (says not in text if says else "float32" in text):
        sys.exit(f"{' '.join(arguments)}: {done.returncode}, {text}, not {says}")


def written(array, save=numpy.save, **options):
    """The bytes of a file of NumPy or SciPy."""
    file = io.BytesIO()
    save(file, array, **options)
    return file.getvalue()


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

    # every type of numbers; pipes and gzip
    whole = numpy.arange(12).reshape(4, 3) * 5
    for dtype in ("f2", ">f4", ">f8", "i1", "u1", "<i2", ">i4", "u4", ">i8", "u8", "?"):
        array = (whole - 20 if "i" in dtype or "f" in dtype else whole).astype(dtype)
        convert("--data", "-", "--label-column", "-1", "--to", "csv", "--output", "rows.csv", given=written(array))
        read, named = rows("rows.csv")
        same(f"{dtype} from a pipe", array[:, :2].astype(numpy.float32), read)
        assert named == array[:, 2].astype(int).tolist(), named
    array = values[:, :2]
    with gzip.open("packed.npy.gz", "wb") as file:
        file.write(written(values + 0))
    convert("--data", "packed.npy.gz", "--labels-from", "labels.npy", "--to", "csv", "--output", "rows.csv")
    same("gzip", values + 0, rows("rows.csv")[0])
    numpy.save("columns.npy", numpy.asfortranarray(values))
    refused("numpy.ascontiguousarray", "info", "columns.npy")
    numpy.save("complex.npy", values.astype(complex))
    refused("'<c16'", "info", "complex.npy")
    numpy.save("names.npy", numpy.array(["a"] * 7))
    refused("numpy.unique", "train", "--data", "matrix.npy", "--labels-from", "names.npy", "--eta", "1")
    numpy.save("short.npy", labels[:5])
    refused("short.npy has labels for 5 rows, and matrix.npy has 7 rows", "train", "--data", "matrix.npy",
            "--labels-from", "short.npy", "--eta", "1")
    # what float32 does not tell apart: 10 seconds of Unix time, of which it has one number
    close = 1.6e9 + numpy.column_stack([numpy.arange(10) * 1e9, numpy.arange(10)])
    assert len(numpy.unique(close[:, 1].astype("f4"))) == 1
    says = "differ by less than 1/4096 of their size, the first is 1: of its numbers from 1600000000 to 1600000009 at most 1"
    for dtype in ("f8", ">f8", "i8", "u4"):
        numpy.save("close.npy", (close[:2] if dtype == "u4" else close).astype(dtype))
        noted(f"1 features {says if dtype != 'u4' else says[:70]}", "info", "close.npy")
    for array in (close.astype("f4"), numpy.array([[7], [7]], "f8"), numpy.array([[0.1], [0.2]], "f8")):
        numpy.save("close.npy", array)
        noted(None, "info", "close.npy")
    small = numpy.array([[1, 1e-50], [2, -1e-60], [3, 1e-40], [9, 2], [9, 1e-46]])
    assert numpy.sum(small.astype("f4") == 0) == 3
    numpy.save("close.npy", small)
    noted("3 numbers are 0 in float32", "info", "close.npy")
    numpy.savez("two.npz", x=values, y=labels)
    refused("(x.npy, y.npy)", "info", "two.npz")

    try:
        import scipy.sparse
    except ImportError:
        print("no SciPy")
        sys.exit(0)
    dense = numpy.where(random.random((9, 6)) < 0.4, random.integers(-9, 9, (9, 6)), 0)
    dense[3] = 0
    where = random.random((9, 4)) < 0.5
    scipy.sparse.save_npz("y.npz", scipy.sparse.csr_matrix(where.astype(numpy.int64)))
    numpy.save("y.npy", numpy.arange(9) % 3)
    for dtype in ("f4", "f8", "i4", "i8", "i1"):
        for packed in (True, False):
            matrix = scipy.sparse.csr_matrix(dense.astype(dtype))
            matrix.indices = matrix.indices.astype("i8")
            matrix.indptr = matrix.indptr.astype("i8")
            scipy.sparse.save_npz("x.npz", matrix, compressed=packed)
            convert("--data", "x.npz", "--labels-from", "y.npy", "--to", "cache", "--output", "x.cache")
            convert("--data", "x.cache", "--to", "csv", "--output", "rows.csv")
            read, named = rows("rows.csv")
            same(f"csr of {dtype}", dense.astype(numpy.float32), read)
            assert named == [i % 3 for i in range(9)], named
    convert("--data", "x.npz", "--labels-from", "y.npz", "--to", "xc", "--output", "rows.xc")
    with open("rows.xc") as file:
        lines = file.read().split("\n")[1:-1]
    for i, line in enumerate(lines):
        assert line.split(" ")[0] == ",".join(str(k) for k in range(4) if where[i, k]), line
    # unsorted, and twice the same column
    matrix = scipy.sparse.csr_matrix((numpy.array([1.0, 2, 3, 4, 5]), numpy.array([2, 0, 2, 1, 0]), [0, 3, 5]), (2, 3))
    with open("twice.npz", "wb") as file:
        file.write(written(matrix, scipy.sparse.save_npz))
    refused("row 0, column 2 (both from 0): a second value; one is accepted (--duplicates sum adds them)", "info", "twice.npz")
    convert("--data", "-", "--duplicates", "sum", "--to", "npy", "--output", "out.npy",
            given=written(matrix, scipy.sparse.save_npz))
    same("duplicates", matrix.toarray().astype(numpy.float32), numpy.load("out.npy"))
    for other in ("csc", "bsr", "dia", "coo"):
        scipy.sparse.save_npz("other.npz", matrix.asformat(other))
        refused(f"in the format {other}; csr is read", "info", "other.npz")
        refused(".tocsr()", "info", "other.npz")
    scipy.sparse.save_npz("close.npz", scipy.sparse.csr_matrix(close))
    noted(f"1 features {says}", "info", "close.npz")
    scipy.sparse.save_npz("close.npz", scipy.sparse.csr_matrix(small))
    noted("3 numbers are 0 in float32", "info", "close.npz")
    scipy.sparse.save_npz("close.npz", scipy.sparse.csr_matrix(close.astype("f4")))
    noted(None, "info", "close.npz")
    # another width than the model's
    subprocess.run([xsoftmax, "train", "--data", "x.npz", "--labels-from", "y.npy", "--estimator", "softmax", "--eta", "1",
                    "--epochs", "1", "--model", "sparse.model"], check=True, stdout=subprocess.DEVNULL)
    columns = dense.shape[1]
    for other in (columns - 1, columns + 1):
        scipy.sparse.save_npz("other.npz", scipy.sparse.csr_matrix(numpy.ones((2, other))))
        refused(f"other.npz: {other} columns; {columns} are expected (those of the model)", "predict", "--model", "sparse.model",
                "--data", "other.npz")
    # a model of LIBSVM's numbers from 1 takes the columns in their order, too
    with open("x.svm", "w") as file:
        file.writelines(f"{i % 3} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) + "\n" for i, row in enumerate(dense))
    subprocess.run([xsoftmax, "train", "--data", "x.svm", "--index-base", "1", "--estimator", "softmax", "--eta", "1",
                    "--model", "one.model"], check=True, stdout=subprocess.DEVNULL)
    scipy.sparse.save_npz("x.npz", scipy.sparse.csr_matrix(dense))
    answers = [subprocess.run([xsoftmax, "predict", "--model", "one.model", "--data", data], check=True,
                              stdout=subprocess.PIPE).stdout for data in ("x.svm", "x.npz")]
    assert answers[0] == answers[1]
    scipy.sparse.save_npz("weights.npz", scipy.sparse.csr_matrix(where * 0.5))
    refused("--label-weights", "train", "--data", "x.npz", "--labels-from", "weights.npz", "--eta", "1")
    with open("x.npz", "rb") as file:
        damaged = bytearray(file.read())
    damaged[len(damaged) // 3] ^= 1
    with open("damaged.npz", "wb") as file:
        file.write(damaged)
    refused("damaged.npz", "info", "damaged.npz")
