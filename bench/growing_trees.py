#!/usr/bin/env python3
"""Label trees that grow beside trees that are fitted anew.

  python3 bench/growing_trees.py XSOFTMAX [DATA...] [--threads T] [--seeds N] [--of SHARE]

DATA: sets of $XSM_DATA or ../shared/data with NAME_train.txt.gz, or folders of examples/debian-packages.sh; without, four
sets. Each seed draws a tenth of the labels (SHARE), which are struck out of the training rows for the first fit; the tree
then grows on all rows. Prints medians: precision, also on the test rows with a new label, and seconds of training alone.
"""
import argparse
import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIRST = {"kg-nell-995", "poetry-author-uni", "s3rec-beauty", "s3rec-toys"}  # a label of each row is kept


def read(path, first):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        shape = next(file).split()[1:3]
        rows = []
        for line in file:
            labels, _, features = line.rstrip("\n").partition(" ")
            if labels and ":" not in labels:
                rows.append((labels.split(",")[:1 if first else None], features))
    return shape, rows


def write(path, shape, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write(" ".join([str(len(rows)), *shape]) + "\n")
        file.writelines(",".join(labels) + " " + features + "\n" for labels, features in rows)
    return path


def run(program, *words):
    """What a command reports, and the seconds of the processor that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, *words, "--json"], stdout=subprocess.PIPE, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def trial(arguments, folder, data, seed):
    name, transform, shape, train, test = data
    labels = sorted({label for some, _ in train for label in some}, key=int)
    new = set(random.Random(seed).sample(labels, int(len(labels) * arguments.of)))
    struck = [([label for label in some if label not in new], features) for some, features in train]
    files = {"all": write(folder + "/all", shape, train), "old": write(folder + "/old", shape, [r for r in struck if r[0]]),
             "test": write(folder + "/test", shape, test),
             "test-new": write(folder + "/test-new", shape, [r for r in test if new & set(r[0])])}
    common = ["--method", "label-tree", "--threads", str(arguments.threads), "--labels", "all", "--no-evaluate",
              "--seed", str(seed)]
    figures = {}
    for way, words in (("old", ["--data", files["old"], "--transform", transform]),
                       ("grown", ["--data", files["all"], "--warm-start", folder + "/old.model"]),
                       ("anew", ["--data", files["all"], "--transform", transform])):
        model = f"{folder}/{way}.model"
        figures[way] = [run(arguments.program, "train", *common, *words, "--model", model)[1]]
        for rows in ("test", "test-new"):
            report, _ = run(arguments.program, "evaluate", "--model", model, "--data", files[rows], "--labels", "all")
            figures[way] += [report["test"]["precision"][at] for at in ("1", "3", "5")]
    print(f"{name}, seed {seed}: {len(new)} of {len(labels)} labels", file=sys.stderr)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", metavar="XSOFTMAX")
    parser.add_argument("data", nargs="*", default=["bibtex", "delicious", "kg-nell-995", "poetry-author-uni"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--of", type=float, default=.1)
    arguments = parser.parse_args()
    print("| rows | tree | P@1/3/5 | of a new label | s |\n|---|---|---|---|---|")
    for name in arguments.data:
        folder, first = os.path.join(os.environ.get("XSM_DATA", ROOT + "/../shared/data"), name), name in FIRST
        packages = os.path.exists(name + "/train.txt")
        paths = [name + "/train.txt", name + "/test.txt"] if packages else \
            [f"{folder}/{name}_{part}.txt.gz" for part in ("train", "test")]
        if not os.path.exists(paths[0]):
            print(f"{paths[0]} is absent: left out", file=sys.stderr)
            continue
        (shape, train), (_, test) = (read(path, first) for path in paths)
        data = (name, "tfidf,unit" if packages else "unit", shape, train, test)
        with tempfile.TemporaryDirectory() as work:
            trials = [trial(arguments, work, data, seed) for seed in range(1, arguments.seeds + 1)]
        for way in ("old", "grown", "anew"):
            median = [statistics.median(trial[way][i] for trial in trials) for i in range(7)]
            digits = [f"{figure:.3f}".lstrip("0") for figure in median[1:]]
            print(f"| {name} | {way} | {'/'.join(digits[:3])} | {'/'.join(digits[3:])} | {median[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
