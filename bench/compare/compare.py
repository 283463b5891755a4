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
from peers import PEERS, Skip, Work  # noqa: E402
from rows import Rows  # noqa: E402

PROGRAMS = {"fasttext": "fasttext", "liblinear": "liblinear-train"}


def find(data):
    """The training and the test file of a data set."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    stored = os.environ.get("XSM_DATA") or os.path.join(root, "..", "shared", "data")
    for folder in (data, os.path.join(stored, data)):
        found = [sorted(glob.glob(os.path.join(folder, f"*{part}.txt*"))) for part in ("train", "test")]
        if all(len(f) == 1 for f in found):
            return found[0][0], found[1][0]
    raise SystemExit(f"compare: '{data}' is no folder with one ..train.txt[.gz] and one ..test.txt[.gz], nor the name "
                     f"of one in {stored}")


def ours(program, estimator, train, test, options):
    command = [program, "train", "--data", train, "--test", test, "--labels", "first", "--transform", "unit",
               "--estimator", estimator, "--threads", str(options.threads), "--json"]
    if options.epochs:
        command += ["--epochs", str(options.epochs)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=options.limit)
    if done.returncode:
        raise Skip((done.stderr.strip().splitlines() or ["it failed"])[-1])
    said = json.loads(done.stdout)
    parts = {name: {"log_loss": said[name]["log_loss"], "p1": said[name].get("precision", {}).get("1"),
                    "p5": said[name].get("precision", {}).get("5")} for name in ("train", "test")}
    return {"seconds": said["train_seconds"] + said.get("tune_seconds", 0), **parts}


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def show(result, name, data, options):
    train, test = result.get("train") or {}, result.get("test") or {}
    if options.json:
        print(json.dumps({"data": data, "method": name, "train_log_loss": train.get("log_loss"),
                          "test_log_loss": test.get("log_loss"), "p1": test.get("p1"), "p5": test.get("p5"),
                          "seconds": result.get("seconds"), "skipped": result.get("skipped")}), flush=True)
    elif "skipped" in result:
        print(f"{name:26} {result['skipped']}", flush=True)
    else:
        print(f"{name:26} {number(train.get('log_loss'), 4):>9} {number(test.get('log_loss'), 4):>9} "
              f"{number(test.get('p1'), 4):>8} {number(test.get('p5'), 4):>8} {number(result['seconds'], 2):>9}",
              flush=True)


def attempt(run, limit):
    try:
        return run()
    except Skip as reason:
        return {"skipped": str(reason)}
    except subprocess.TimeoutExpired:
        return {"skipped": f"stopped after {limit:g} s"}


def compare(data, options):
    train_path, test_path = find(data)
    name = os.path.basename(os.path.normpath(data))
    listed = subprocess.run([options.program, "estimators"], stdout=subprocess.PIPE, text=True, check=True).stdout
    methods = ["xsoftmax/" + line.split()[0] for line in listed.splitlines() if line.strip()]
    wanted = [m for m in methods + list(PEERS) if not options.only or any(
        m == w or m.startswith(w + "/") for w in options.only)]
    if not wanted:
        raise SystemExit(f"compare: --only names none of {', '.join(methods + list(PEERS))}")
    train, test = Rows(train_path), Rows(test_path)
    train.unit()
    test.unit()
    with tempfile.TemporaryDirectory(prefix="xsoftmax-compare.") as folder:
        work = Work(folder, train, test, options.limit, options.threads)
        if not options.json:
            print(f"\n{name}: {len(work.keep)} training rows, {len(work.test_keep)} test rows, {train.features} "
                  f"features, {len(work.known)} classes; {options.threads} threads, first label, unit rows")
            print(f"{'method':26} {'train ll':>9} {'test ll':>9} {'P@1':>8} {'P@5':>8} {'seconds':>9}")
        for method in wanted:
            if method in PEERS:
                needed = PROGRAMS.get(method.split("/")[0])
                if needed and not shutil.which(needed):
                    result = {"skipped": "not installed"}
                else:
                    result = attempt(lambda: PEERS[method](work), options.limit)
            else:
                result = attempt(lambda: ours(options.program, method.split("/")[1], train_path, test_path, options),
                                 options.limit)
            show(result, method, name, options)


def main():
    parser = argparse.ArgumentParser(prog="compare.sh", description="Trains every estimator of the library and the "
                                     "programs of other people on the same rows.")
    parser.add_argument("data", nargs="+", metavar="DATA")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON a method, nothing else")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", type=lambda text: text.split(","), help="methods, or groups: xsoftmax, fasttext, "
                        "liblinear, scikit-learn")
    parser.add_argument("--limit", type=float, default=120, help="seconds that training may take (120)")
    parser.add_argument("--epochs", type=int, help="of the library's estimators (its default)")
    options = parser.parse_args()
    for data in options.data:
        compare(data, options)


if __name__ == "__main__":
    main()
