#!/usr/bin/env python3
"""Answers of imported models beside fastText's own: trains models with Debian's fasttext, imports them, and compares what
both say of each class of each test line.

    python3 bench/fasttext_import.py XSOFTMAX TRAIN TEST [ROWS TEST-ROWS TOP]

TRAIN and TEST are lines of text, plain or .gz, of which the first ROWS and TEST-ROWS are taken; TOP is how many classes of a
line are asked for, all without it.

fastText adds 1e-5 to what it prints (of hs to each node's probability), and takes sigmoids (ova, ns) from a table of 512
steps from -8 to 8, whose neighbours differ by up to 0.0078.
"""
import gzip
import os
import resource
import subprocess
import sys
import tempfile

MODELS = [("softmax, pairs of words", "-loss softmax -wordNgrams 2"), ("ova, pairs of words", "-loss ova -wordNgrams 2"),
          ("ns", "-loss ns"), ("hs, triples of words", "-loss hs -wordNgrams 3"),
          ("softmax, 3 to 6 characters and pairs", "-loss softmax -wordNgrams 2 -minn 3 -maxn 6")]
QUANTISED = "the same, pruned and quantised"
ALWAYS = "-dim 50 -lr 0.5 -epoch 10 -bucket 200000 -thread 1 -seed 1 -verbose 0"


def run(*command):
    """The lines of a command's output, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def lines_of(path, most=None):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return [line for line, _ in zip(file, range(most or sys.maxsize))]


def compare(xsoftmax, name, model, top):
    run(xsoftmax, "import", "--model", model, "--output", "ours")
    theirs, their_seconds = run("fasttext", "predict-prob", model, "test.txt", top or "-1")
    ours, own_seconds = run(xsoftmax, "predict", "--model", "ours", "--data", "test.txt", "--format", "text", "--top",
                            top or "65536", "--threads", "1", "--probabilities")
    same = numbers = 0
    largest = 0.0
    for their_line, own_line in zip(theirs, ours, strict=True):
        words = their_line.split()
        said = {label.removeprefix("__label__"): float(p) for label, p in zip(words[::2], words[1::2])}
        own = [entry.rsplit(":", 1) for entry in own_line.split("\t")]
        same += words[0].removeprefix("__label__") == own[0][0]
        apart = [abs(said[label] - float(p)) for label, p in own if label in said]
        numbers += len(apart)
        largest = max([largest, *apart])
    print(f"| {name} | {same:,} of {len(ours):,} | {numbers:,} | {largest:.2g} | {their_seconds:.2f}, {own_seconds:.2f} |",
          flush=True)


def main():
    if len(sys.argv) not in (4, 7):
        sys.exit(__doc__)
    xsoftmax, train, test = (os.path.abspath(path) for path in sys.argv[1:4])
    rows, test_rows, top = (int(sys.argv[4]), int(sys.argv[5]), sys.argv[6]) if len(sys.argv) == 7 else (None, None, None)
    with tempfile.TemporaryDirectory(prefix="xsoftmax-fasttext.") as folder:
        os.chdir(folder)
        for name, lines in (("train.txt", lines_of(train, rows)), ("test.txt", lines_of(test, test_rows))):
            with open(name, "w", encoding="utf-8") as out:
                out.writelines(lines)
        print("| model | best class the same | numbers | largest difference | seconds: fastText, xsoftmax |")
        print("|---|---|---|---|---|")
        for name, flags in MODELS:
            train = f"-input train.txt -output theirs {ALWAYS}".split()
            run("fasttext", "supervised", *train, *flags.split())
            compare(xsoftmax, name, "theirs.bin", top)
        run("fasttext", "quantize", *train, "-cutoff", "20000", "-qnorm")
        compare(xsoftmax, QUANTISED, "theirs.ftz", top)


main()
