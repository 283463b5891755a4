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
from sorts import CHECKPOINT, SAMPLERS, STATES, binding, make_files, make_samplers, predicted, run, sampler_logs, xsoftmax

failures = []


def compare(name, data, rows=None):
    """All classes of all rows, scores and probabilities."""
    model = read.Model(name)
    names, own = model.names(), list(read.rows_of(model, rows or data))
    for what, flags, compute in (("score", [], model.scores), ("probability", ["--probabilities"], model.probabilities)):
        said = predicted(name, data, model.classes, bool(model.trees), *flags)
        assert len(said) == len(own), (name, len(said), len(own))
        for i, (theirs, row) in enumerate(zip(said, own)):
            expected = dict(zip(names, compute(row)))
            close = set(theirs) == set(expected) and all(
                abs(theirs[k] - expected[k]) <= 2e-4 * max(1, abs(expected[k])) for k in theirs)
            if not close:
                failures.append(name)
                print(f"{name}, row {i}: {what} {theirs}, by the page {expected}")
                return
    print(f"{name}: {len(own)} rows")


def check_cache():
    f = read.File("rows.cache")
    assert f.metadata["dataset"] == "1" and f.metadata["classes"] == "7" and f.metadata["index_base"] == "1"
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
    f = read.File("svm.index")
    assert f.metadata["index"] == "spherical" and int(f.metadata["rows"]) == 7
    assert int(f.metadata["width"]) == 12, f.metadata
    numbers, width = f.get("numbers"), 12 + int(f.metadata["bias"])
    clusters = (len(numbers) - 6 - width - 7) // (width + 2)
    assert numbers[-7 - clusters:-7].sum() == 7 and sorted(numbers[-7:]) == list(range(7)), numbers
    print("svm.index: as the page says")


def check_samplers():
    """log q(k given x) of samplers, where the library can be called from Python."""
    if binding() is None:
        print("samplers: left out, as $XSOFTMAX_LIBRARY is not set")
        return
    make_samplers("svm")
    rows = list(read.rows_of(read.Model("svm.m"), "svm"))[:8]
    for name in SAMPLERS:
        f = read.File(f"{name}.sampler")
        assert f.metadata["sampler"] == name and f.metadata["classes"] == "7" and f.metadata["features"] == "12", f.metadata
        for row, theirs in zip(rows, sampler_logs(f"{name}.sampler", "svm", len(rows))):
            own = (np.full(7, -np.log(7)) if name == "uniform" else f.get("log_q") if name == "frequency"
                   else read.recent_log_probabilities(f) if name == "recent"
                   else read.midx_log_probabilities(f, row) if name == "midx"
                   else read.tree_log_probabilities(f, row) if name == "tree" else read.label_tree_log_probabilities(f))
            assert np.allclose(theirs, own, atol=1e-4), (name, theirs, own)
    print("samplers: as the page says")


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


def check_checkpoints():
    """The page names what each kind of run keeps."""
    for flags in STATES.values():
        run(*flags, "--epochs", "2", "--checkpoint", "kept", "--no-evaluate")
        assert any(name.startswith("state.") for name in read.File("kept").tensors)
    run("train", "--data", "text", "--method", "label-tree", "--set", "leaf=2", "--set", "arity=2", "--checkpoint", "kept",
        "--checkpoint-every", "0.0001", "--model", "made.m", "--no-evaluate")
    read.File("kept")


def check_option():
    """A checkpoint that lacks an option, as of an older release, had its default."""
    model_file.rewrite("state", "older", "option")
    ridge = CHECKPOINT.index("--ridge")
    for flags, wanted in ((CHECKPOINT[:ridge] + CHECKPOINT[ridge + 2:], ""), (CHECKPOINT, "estimator.ridge = 3, the checkpoint")):
        done = subprocess.run([xsoftmax, *flags, "--resume", "older", "--model", "on.m"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != bool(wanted) or wanted not in done.stderr:
            failures.append("a checkpoint without an option")
            print(done.returncode, done.stderr)


def main():
    make_files(compare)
    check_option()
    check_checkpoints()
    check_cache()
    check_index()
    check_samplers()
    check_unknown()
    if failures:
        raise SystemExit(f"not as doc/formats.md says: {', '.join(failures)}")


with tempfile.TemporaryDirectory(prefix="xsoftmax-formats.") as folder:
    os.chdir(folder)
    main()
