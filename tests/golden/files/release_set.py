"""The files of a release, which every later library reads, with what must come of them: answers of models of every sort and of
samplers, rows found by an index, answers after training on caches and after going on from checkpoints. Together they have
every tensor that doc/formats.md names.

  release_set.py XSOFTMAX make FOLDER         makes the set of this release
  release_set.py XSOFTMAX check FILE...       fails where this release does not read the sets whose expected.json these are,
                                              or answers otherwise

Samplers need $XSOFTMAX_LIBRARY and $XSOFTMAX_ABI, as examples/python/xsoftmax.py does.
"""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

from sorts import (BEGUN, CACHES, CHECKPOINT, SAMPLERS, SOFTMAX, STATES, TREE_CHECKPOINT, make_files, make_samplers, make_states,
                   make_transformed, predicted, raw_contents, run, sampler_logs)

ROWS = 8  # of which answers are kept
failures = []


def answers(name, data):
    """Scores and probabilities of all classes of the first rows."""
    classes = len(json.loads(run("info", "--json", name))["labels"])
    trees = name.rsplit("/", 1)[-1].startswith("trees")
    return [predicted(name, data, classes, trees, *flags)[:ROWS] for flags in ([], ["--probabilities"])]


def search(folder):
    return run("predict", "--model", f"{folder}/svm.m", "--data", f"{folder}/svm", "--index-file", f"{folder}/svm.index",
               "--top", "1").splitlines()[:ROWS]


def results(folder):
    """What comes of caches and checkpoints."""
    def ended(name, flags, rows, *more):
        data = flags[flags.index("--data") + 1]
        given = [f"{folder}/{data}" if flag == data else flag for flag in flags]
        run(*given, *more, "--model", "trees.m", "--no-evaluate")
        return {name: answers("trees.m" if "label-tree" in flags else shutil.copy("trees.m", "on.m"), f"{folder}/{rows}")}

    found = {"rows.cache": answers(f"{folder}/svm.m", f"{folder}/rows.cache"), "refused": []}
    try:
        answers(f"{folder}/steps.m", f"{folder}/transformed.cache")
    except SystemExit as refused:
        found["refused"] = re.findall("rows were transformed before", str(refused))
    for name, rows in CACHES.items():
        found |= ended(name, ["train", "--data", name, *SOFTMAX, "--transform", "none", "--seed", "3"], rows)
    runs = {name: [*flags, "--epochs", "3"] for name, flags in STATES.items()}
    for name, flags in (runs | {"state": CHECKPOINT, "tree.state": TREE_CHECKPOINT, "begun.state": BEGUN}).items():
        # The runs go on, of which later releases have more options.
        found |= ended("on from " + name, flags, flags[flags.index("--data") + 1], "--resume", f"{folder}/{name}")
    return found


def missing(folder):
    """Tensors of doc/formats.md that no file has."""
    page = (pathlib.Path(__file__).parent / "../../../doc/formats.md").read_text(encoding="utf-8")
    wanted = set(re.findall(r"`([^` ]+)` [FIU]\d", page))
    for line in re.findall(r"^\|.*\b(?:[FIU](?:8|16|32|64)|of the dtype of|as of models).*", page, re.M):
        cell = re.findall(r"`([^` ]+)`", line.split("|")[1])
        wanted |= {name for name in cell if name not in SAMPLERS}
    assert {"weight", "class_names", "label_weights", "state.scale", "numbers", "state.optimizer.layer-row-squares"} <= wanted
    kinds = (".m", ".cache", ".state", ".sampler", ".index")
    have = {name for path in folder.iterdir() if path.suffix in kinds for name in raw_contents(path)[1]}
    have |= {re.sub(r"^tree\d+", "tree<t>", name) for name in have}
    have |= {f"state.{kind}.*" for kind in ("estimator", "sampler") if any(f"state.{kind}." in n for n in have)}
    return sorted(wanted - have - {"..."})


def make(folder):
    expected = {}
    kept = ["text", "svm", "hashed", "csv", "alike", "words", "svm.index", "rows.cache", *CACHES,
            *STATES, "tree.state", "begun.state"]
    with tempfile.TemporaryDirectory(prefix="xsoftmax-set.") as made:
        os.chdir(made)
        make_files(lambda name, data, rows=None: expected.update({name: [data, *answers(name, data)]}))
        make_states()
        make_transformed()
        expected["svm.index"] = search(".")
        make_samplers("svm")
        expected |= {f"{name}.sampler": sampler_logs(f"{name}.sampler", "svm", ROWS) for name in SAMPLERS}
        folder.mkdir(parents=True)
        for name in [*kept, *expected]:
            shutil.copy(name, folder)
        expected["results"] = results(".")
    with open(folder / "expected.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(what)}" for name, what in expected.items()) + "\n}\n")


def close(have, want):
    """Equal but for what another order of summation changes."""
    if isinstance(want, dict):
        return have.keys() == want.keys() and all(close(have[k], want[k]) for k in want)
    if isinstance(want, list):
        return len(have) == len(want) and all(map(close, have, want))
    return have == want if isinstance(want, str) else abs(have - want) <= 2e-4 * max(1, abs(want))


def compare(what, have, want):
    if not close(have, want):
        failures.append(what)
        print(f"{what}: {have}, expected {want}")


def check(folder):
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    compare(f"{folder}: tensors of doc/formats.md in no file", missing(folder), [])
    for name, have in results(folder).items():
        compare(f"{folder}/{name}", have, expected["results"].pop(name))
    compare(f"{folder}: files without a result", sorted(expected.pop("results")), [])
    for name, want in expected.items():
        path = f"{folder}/{name}"
        if name.endswith(".sampler"):
            compare(path, sampler_logs(path, f"{folder}/svm", ROWS), want)
        elif name == "svm.index":
            compare(path, [line.split(":")[0] for line in search(folder)], [line.split(":")[0] for line in want])
        else:
            compare(path, answers(path, f"{folder}/{want[0]}"), want[1:])
    print(f"{folder}: {len(expected)} files, answers of {ROWS} rows each; and what comes of caches and checkpoints")
    return len(expected)


if __name__ == "__main__":
    if sys.argv[2] == "make":
        make(pathlib.Path(sys.argv[3]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="xsoftmax-set.") as scratch:
            folders = [pathlib.Path(name).resolve().parent for name in sys.argv[3:]]
            os.chdir(scratch)
            if not folders or min(map(check, folders)) < 44 or failures:
                raise SystemExit(f"not as they were: {', '.join(failures)}")
