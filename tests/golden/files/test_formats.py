"""Whether doc/formats.md is complete: the command makes a file of each kind and sort, and read.py, which knows that page
alone, must give what the command predicts.

  test_formats.py XSOFTMAX
"""
import os
import subprocess
import sys
import tempfile

import numpy as np

import read
import model_file

xsoftmax = os.path.abspath(sys.argv[1])
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
rng = np.random.default_rng(20261128)
failures = []


def run(*arguments):
    done = subprocess.run([xsoftmax, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def made_up():
    """Rows of text, of sparse numbers from 1, of hashed numbers, and of a table; 7 classes."""
    labels = rng.integers(0, 7, 240)
    words = ["ant", "bée", "cat", "dögs", "eel", "fox", "gnu", "hen", "ibis", "jay", "kea", "lynx"]
    with open("text", "w", encoding="utf-8") as text, open("svm", "w", encoding="utf-8") as svm, \
            open("hashed", "w", encoding="utf-8") as hashed, open("csv", "w", encoding="utf-8") as csv, \
            open("numbers", "w", encoding="utf-8") as numbers:
        csv.write("label,a,b,c,d\n")
        for k in labels:
            some = sorted({int(k), *(int(j) for j in rng.integers(0, len(words), 4))})
            values = {j: round(float(rng.normal() + (2 if j == k else 1)), 3) for j in some}
            text.write(f"__label__c{k} " + " ".join(words[j] for j in rng.permutation(some)) + "\n")
            svm.write(f"{3 * k} " + " ".join(f"{j + 1}:{x}" for j, x in values.items()) + "\n")
            hashed.write(f"{k} " + " ".join(f"{j * 1000003 + 70000}:{x}" for j, x in values.items()) + "\n")
            cells = [f"{float(rng.normal() * 100 ** i + k):.4f}" for i in range(4)]
            csv.write(f"{k}," + ",".join(cells) + "\n")
            numbers.write(",".join(cells) + "\n")


def compare(name, data, rows=None):
    """All classes of all rows, scores and probabilities."""
    model = read.Model(name)
    names, own = model.names(), list(read.rows_of(model, rows or data))
    for what, flags, compute in (("score", [], model.scores), ("probability", ["--probabilities"], model.probabilities)):
        said = run("predict", "--model", name, "--data", data, "--top", str(model.classes), "--beam", str(model.classes),
                   *flags).splitlines() if model.trees else run("predict", "--model", name, "--data", data, "--top",
                                                                str(model.classes), *flags).splitlines()
        assert len(said) == len(own), (name, len(said), len(own))
        for i, (line, row) in enumerate(zip(said, own)):
            theirs = {k: float(v) for k, v in (entry.rsplit(":", 1) for entry in line.split("\t"))}
            expected = dict(zip(names, compute(row)))
            close = set(theirs) == set(expected) and all(
                abs(theirs[k] - expected[k]) <= 2e-4 * max(1, abs(expected[k])) for k in theirs)
            if not close:
                failures.append(name)
                print(f"{name}, row {i}: {what} {theirs}, by the page {expected}")
                return
    print(f"{name}: {len(own)} rows")


def trained(name, data, *flags, rows=None):
    run("train", "--data", data, "--model", name, "--seed", "3", *flags)
    compare(name, data, rows)


def check_cache():
    run("convert", "--data", "svm", "--output", "rows.cache", "--to", "cache")
    f = read.File("rows.cache")
    assert f.metadata["dataset"] == "1" and f.metadata["classes"] == "7" and f.metadata["index_base"] == "2"
    for i, line in enumerate(open("svm", encoding="utf-8")):
        label, *pairs = line.split()
        first, last = f.get("offsets")[i:i + 2]
        have = [(int(j) + 1, float(x)) for j, x in zip(f.get("index")[first:last], f.get("values")[first:last])]
        want = [[float(n) for n in p.split(":")] for p in pairs]
        assert np.allclose(have, [pair for pair in want if pair[1] != 0], rtol=1e-6), (i, have, want)
        first, last = f.get("label_offsets")[i:i + 2]
        assert [f.get("class_labels")[k] for k in f.get("labels")[first:last]] == [int(label)]
    print("rows.cache: as the rows")


def check_index():
    run("index", "svm.m", "svm.index")
    f = read.File("svm.index")
    assert f.metadata["index"] == "spherical" and int(f.metadata["rows"]) == 7
    assert int(f.metadata["width"]) == 12, f.metadata
    print("svm.index: as the page says")


def check_unknown():
    """A tensor of a later release is refused by name, wherever it is."""
    for name, command in (("svm.m", ["info", "later"]), ("rows.cache", ["convert", "--data", "later", "--format", "cache", "--to",
                                                                       "xc", "--output", "out"]),
                          ("svm.index", ["predict", "--model", "svm.m", "--data", "svm", "--index-file", "later"])):
        model_file.rewrite(name, "later", "tensor")
        done = subprocess.run([xsoftmax, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 1 or "later: it has a tensor 'later', which this release does not know" not in done.stderr:
            failures.append(f"{name} with another tensor")
            print(name, done.returncode, done.stderr)


def main():
    made_up()
    softmax = ["--estimator", "softmax", "--eta", "0.5", "--epochs", "3"]
    trained("svm.m", "svm", *softmax, "--transform", "none")
    trained("steps.m", "svm", *softmax, "--transform", "log,tfidf,standard,unit,products=3,unit", "--bias", "yes")
    trained("hashed.m", "hashed", *softmax, "--transform", "unit,truncate=9")
    trained("table.m", "csv", *softmax, "--transform", "standard", "--bias", "yes", rows="numbers")
    trained("text.m", "text", *softmax, "--transform", "tfidf,unit", "--word-ngrams", "3", "--min-chars", "1",
            "--max-chars", "3", "--buckets", "50")
    run("train", "--data", "text", "--warm-start", "text.m", "--model", "grown.m", *softmax)
    compare("grown.m", "text")
    trained("sigmoid.m", "text", "--estimator", "one-vs-all", "--eta", "0.5", "--epochs", "3")
    trained("negative.m", "svm", "--estimator", "negative-sampling", "--set", "sampler=frequency", "--eta", "0.1")
    trained("tree.m", "svm", "--estimator", "negative-sampling", "--set", "sampler=tree", "--eta", "0.1")
    trained("hierarchical.m", "svm", "--estimator", "hierarchical", "--eta", "0.1")
    trained("distance.m", "svm", *softmax, "--geometry", "euclidean")
    for i, layer in enumerate((["--activation", "relu", "--pool", "mean"], ["--activation", "tanh"], ["--pairs", "3"])):
        trained(f"embedding{i}.m", "text", "--hidden", "6", "--estimator", "sampled-softmax", "--eta", "0.3", *layer)
    folder = os.path.join(source, "fasttext")
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".txt"):
            run("import", os.path.join(folder, name), f"{name}.m")
            compare(f"{name}.m", os.path.join(folder, "text.txt"))
    for link in ("softmax", "sigmoid", "normalised", "hinge"):
        trained(f"trees-{link}.m", "text", "--method", "label-tree", "--set", f"link={link}", "--set", "trees=2", "--set",
                "leaf=2")
    run("prune", "svm.m", "pruned.m", "--keep", "5")
    compare("pruned.m", "svm")
    for dtype in ("bfloat16", "int8"):
        for name, data in (("svm", "svm"), ("embedding1", "text"), ("pruned", "svm"), ("trees-sigmoid", "text")):
            run("convert-model", f"{name}.m", f"{name}-{dtype}.m", "--type", dtype)
            compare(f"{name}-{dtype}.m", data)
    run("calibrate", "--model", "svm.m", "--output", "calibrated.m", "--data", "svm")
    compare("calibrated.m", "svm")
    run("train", "--data", "svm", "--model", "again.m", "--checkpoint", "state", "--checkpoint-every", "0.0001",
        "--optimizer", "sgd", "--ridge", "3", *softmax, "--transform", "none")
    compare("state", "svm")
    check_cache()
    check_index()
    check_unknown()
    if failures:
        raise SystemExit(f"not as doc/formats.md says: {', '.join(failures)}")


with tempfile.TemporaryDirectory(prefix="xsoftmax-formats.") as folder:
    os.chdir(folder)
    main()
