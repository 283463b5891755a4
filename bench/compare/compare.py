"""Trains every estimator and every peer on the same rows, and prints a table; see bench/compare.sh."""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import PEERS, QUERIES, Skip, Work, query_ms, run, xc  # noqa: E402
from rows import Rows  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = {"fasttext": "fasttext", "liblinear": "liblinear-train"}
DEFAULT = "xsoftmax/default"
LABEL_TREE = "label-tree"
DEBIAN = "debian-maintainers"


def find(data):
    """The training and the test file of a data set."""
    stored = os.environ.get("XSM_DATA") or os.path.join(ROOT, "..", "shared", "data")
    for folder in (data, os.path.join(stored, data)):
        found = [sorted(glob.glob(os.path.join(folder, f"*{part}.txt*"))) for part in ("train", "test")]
        if all(len(f) == 1 for f in found):
            return found[0][0], found[1][0]
    raise SystemExit(f"compare: '{data}' is no folder with one ..train.txt[.gz] and one ..test.txt[.gz], nor the name "
                     f"of one in {stored}")


def ours(work, method, paths, options):
    model = work.path("model.safetensors")
    command = [options.program, "train", "--data", paths[0], "--labels", "first", "--threads", str(options.threads),
               "--model", model, "--no-evaluate", "--json"]
    if method != DEFAULT:
        chosen = method.split("/")[1]
        command += ["--transform", "unit", "--method" if chosen == LABEL_TREE else "--estimator", chosen]
        if options.epochs and chosen != LABEL_TREE:
            command += ["--epochs", str(options.epochs)]
    # Two processes, so that the processor time of the first has no evaluation in it.
    spent, said = run(command, options.limit)
    said, parts = json.loads(said), {}
    for part, path in zip(("train", "test"), paths):
        found = subprocess.run([options.program, "evaluate", "--model", model, "--data", path, "--threads",
                                str(options.threads), "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
        metrics = json.loads(found)["test"]
        parts[part] = {"log_loss": metrics["log_loss"], **{f"p{k}": metrics["precision"].get(str(k)) for k in (1, 5)}}
    size, test = os.path.getsize(model), work.test
    lines = [xc(test, i, [l]) for i, l in zip(work.test_keep[:QUERIES], work.test_labels)]
    query = query_ms(lambda path: [options.program, "predict", "--model", model, "--data", path, "--threads", "1"], model,
                     lines, lambda count: f"{count} {test.features} {1 + max(work.test_labels)}\n")
    os.unlink(model)
    chosen = {"chosen": said["choice"]["why"][0].split(":")[0]} if method == DEFAULT else {}
    choice = (said["choice"] or {}).get("seconds") or 0
    return {"seconds": said["train_seconds"] + (said["tune_seconds"] or 0) + choice, "processor_seconds": spent,
            "bytes": size, "query_ms": query, **chosen, **parts}


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def mebibytes(result):
    size = result.get("bytes")
    return number(size and size / 2 ** 20, 1)


def show(result, name, data, options):
    train, test = result.get("train") or {}, result.get("test") or {}
    if options.json:
        print(json.dumps({"data": data, "method": name, "train_log_loss": train.get("log_loss"),
                          "test_log_loss": test.get("log_loss"), "p1": test.get("p1"), "p5": test.get("p5"),
                          "seconds": result.get("seconds"), "processor_seconds": result.get("processor_seconds"),
                          "bytes": result.get("bytes"), "query_ms": result.get("query_ms"),
                          "chosen": result.get("chosen"), "skipped": result.get("skipped")}), flush=True)
    elif "skipped" in result:
        print(f"{name:26} {result['skipped']}", flush=True)
    else:
        print(f"{name:26} {number(train.get('log_loss'), 4):>9} {number(test.get('log_loss'), 4):>9} "
              f"{number(test.get('p1'), 4):>8} {number(test.get('p5'), 4):>8} {number(result['seconds'], 2):>9} "
              f"{number(result['processor_seconds'], 2):>9} {mebibytes(result):>8} {number(result.get('query_ms'), 3):>8}  "
              f"{result.get('chosen', '')}".rstrip(), flush=True)


def attempt(method, work, paths, options):
    needed = PROGRAMS.get(method.split("/")[0])
    if needed and not shutil.which(needed):
        return {"skipped": "not installed"}
    try:
        return PEERS[method](work) if method in PEERS else ours(work, method, paths, options)
    except Skip as reason:
        return {"skipped": str(reason)}


def compare(data, options):
    if data == DEBIAN:
        with tempfile.TemporaryDirectory(prefix="xsoftmax-debian.") as folder:
            subprocess.run(["sh", os.path.join(ROOT, "examples", "debian-packages.sh"), folder], stdout=subprocess.DEVNULL,
                           check=True)
            compare_files(DEBIAN, find(folder), options)
    else:
        compare_files(data, find(data), options)


def compare_files(data, paths, options):
    name = os.path.basename(os.path.normpath(data))
    listed = subprocess.run([options.program, "estimators"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    methods = [DEFAULT] + ["xsoftmax/" + name for name in [*names, LABEL_TREE]]
    wanted = [m for m in methods + list(PEERS) if not options.only or any(
        m == w or m.startswith(w + "/") for w in options.only)]
    if not wanted:
        raise SystemExit(f"compare: --only names none of {', '.join(methods + list(PEERS))}")
    train, test = map(Rows, paths)
    train.unit()
    test.unit()
    with tempfile.TemporaryDirectory(prefix="xsoftmax-compare.") as folder:
        work = Work(folder, train, test, options.limit, options.threads)
        if not options.json:
            print(f"\n{name}: {len(work.keep)} training rows, {len(work.test_keep)} test rows, {train.features} "
                  f"features, {len(work.known)} classes; {options.threads} threads, first label, unit rows")
            print(f"{'method':26} {'train ll':>9} {'test ll':>9} {'P@1':>8} {'P@5':>8} {'seconds':>9} {'processor':>9} "
                  f"{'MiB':>8} {'ms/query':>8}", flush=True)
        for method in wanted:
            show(attempt(method, work, paths, options), method, name, options)


def main():
    parser = argparse.ArgumentParser(prog="compare.sh", description="Trains every estimator of the library and the "
                                     "programs of other people on the same rows.")
    parser.add_argument("data", nargs="+", metavar="DATA")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON a method, nothing else")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", type=lambda text: text.split(","), help="methods, or groups: xsoftmax, fasttext, "
                        "liblinear, scikit-learn, pecos")
    parser.add_argument("--limit", type=int, default=240, help="processor seconds that training may take (240)")
    parser.add_argument("--epochs", type=int, help="of the library's estimators (its default)")
    options = parser.parse_args()
    for data in options.data:
        compare(data, options)


if __name__ == "__main__":
    main()
