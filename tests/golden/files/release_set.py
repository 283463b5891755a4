"""The files of a release, which every later library reads: models of every sort with their expected answers, checkpoints, a
cache, samplers, an index.

  release_set.py XSOFTMAX make FOLDER         makes the set of this release
  release_set.py XSOFTMAX check FILE...       fails where this release does not read the sets whose expected.json these are,
                                              or answers otherwise

Samplers need $XSOFTMAX_LIBRARY and $XSOFTMAX_ABI, as examples/python/xsoftmax.py does.
"""
import json
import os
import pathlib
import shutil
import sys
import tempfile

from sorts import CHECKPOINT, SAMPLERS, TREE_CHECKPOINT, make_files, make_samplers, predicted, run, sampler_logs

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


def make(folder):
    expected = {}
    kept = ["text", "svm", "hashed", "csv", "alike", "words", "rows.cache", "svm.index", "tree.state"]
    with tempfile.TemporaryDirectory(prefix="xsoftmax-set.") as made:
        os.chdir(made)
        make_files(lambda name, data, rows=None: expected.update({name: [data, *answers(name, data)]}))
        run(*TREE_CHECKPOINT, "--checkpoint", "tree.state", "--checkpoint-every", "0.0001", "--model", "other.m")
        expected["svm.index"] = search(".")
        make_samplers("svm")
        expected |= {f"{name}.sampler": sampler_logs(f"{name}.sampler", "svm", ROWS) for name in SAMPLERS}
        folder.mkdir(parents=True)
        for name in [*kept, *expected]:
            shutil.copy(name, folder)
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
    for name, want in expected.items():
        path = f"{folder}/{name}"
        if name.endswith(".sampler"):
            compare(path, sampler_logs(path, f"{folder}/svm", ROWS), want)
        elif name == "svm.index":
            compare(path, [line.split(":")[0] for line in search(folder)], [line.split(":")[0] for line in want])
        else:
            compare(path, answers(path, f"{folder}/{want[0]}"), want[1:])
    compare(f"{folder}/rows.cache", answers(f"{folder}/svm.m", f"{folder}/rows.cache"), expected["svm.m"][1:])
    # Runs go on, of which later releases have more options.
    for flags, state in ((CHECKPOINT, "state"), (TREE_CHECKPOINT, "tree.state")):
        data = f"{folder}/{flags[flags.index('--data') + 1]}"
        given = [data if flag == os.path.basename(data) else flag for flag in flags]
        run(*given, "--resume", f"{folder}/{state}", "--model", "on.m", "--no-evaluate")
    print(f"{folder}: {len(expected)} files, answers of {ROWS} rows each; a cache and two checkpoints")
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
