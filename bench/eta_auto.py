#!/usr/bin/env python3
"""Is `--eta auto` as good as the best of the grid, and what does it cost?

    python3 bench/eta_auto.py BUILD [--data FOLDER] [--sets a,b] [--estimators a,b] [--epochs 10,50] [--csv FILE]

For each set and estimator: a whole run with each rate of the grid 10^-3 ... 10^3, then one with `--eta auto`, all with
the command's other defaults and rows of unit length. The objective is the exact log-loss of the training rows; test
rows are not read. Prints the excess of auto over the best of the grid, and what the trials cost beside the run: in
examples handled, and in time (on a machine with other work, the first is the one to trust). Where auto chose a rate
outside of the grid, or between, it can be below the grid's best: a negative excess.

Sets and estimators that would take long are left out unless they are asked for by name."""
import argparse
import json
import os
import pathlib
import subprocess
import sys

GRID = [10.0 ** k for k in range(-3, 4)]
# Set: labels kept (None: the estimator's own), estimators left out by default as every step scores all classes.
SETS = {
    "mnist": "first", "20news": "first", "bibtex": "first", "corel5k": "first", "delicious": "first",
    "bibtex:all": "all", "corel5k:all": "all", "delicious:all": "all", "hmc-cellcycle-go:all": "all",
    "kg-fb15k237": "first", "s3rec-beauty": "first", "poetry-author-uni": "first",
}
DEFAULT = [name for name in SETS if name not in ("poetry-author-uni",)]
LARGE = ("kg-fb15k237", "s3rec-beauty", "poetry-author-uni")


def estimators(program):
    text = subprocess.run([program, "estimators"], check=True, text=True, capture_output=True).stdout
    return [line.split()[0] for line in text.splitlines() if line and line[0].islower()]


def train(program, folder, name, estimator, epochs, eta, threads):
    base = name.split(":")[0]
    command = [program, "train", "--data", f"{folder}/{base}/{base}_train.txt.gz", "--labels", SETS[name], "--transform",
               "unit", "--estimator", estimator, "--epochs", str(epochs), "--eta", eta, "--json"]
    if threads:
        command += ["--threads", str(threads)]
    run = subprocess.run(command, text=True, capture_output=True)
    if run.returncode != 0:
        if "diverged" in run.stderr or "not finite" in run.stderr:
            return None
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--data", default=os.environ.get("XSM_DATA", str(root / "../shared/data")))
    parser.add_argument("--sets", default=",".join(DEFAULT))
    parser.add_argument("--estimators", default="")
    parser.add_argument("--epochs", default="10")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--csv")
    a = parser.parse_args()
    program = str(pathlib.Path(a.build) / "examples" / "xsoftmax")
    if not pathlib.Path(a.data).is_dir():
        print(f"skipped: there is no {a.data}; see --data")
        sys.exit(77)
    table = open(a.csv, "w", encoding="utf-8") if a.csv else None
    columns = ["set", "estimator", "epochs"] + [f"{eta:g}" for eta in GRID] + ["auto_eta", "auto", "excess", "examples",
                                                                                "time"]
    if table:
        print(",".join(columns), file=table)
    print(f"{'set':<20} {'estimator':<9} {'epochs':>6} " + " ".join(f"{eta:>9g}" for eta in GRID) +
          f" {'auto':>7} {'objective':>9} {'excess':>8} {'examples':>8} {'time':>7}")
    worst, over, dear, rows = None, 0, 0, 0
    for epochs in map(int, a.epochs.split(",")):
        for name in a.sets.split(","):
            for estimator in a.estimators.split(",") if a.estimators else estimators(program):
                exact = estimator in ("softmax", "bouchard")
                if not a.estimators and (exact and name in LARGE or not exact and SETS[name] == "all"):
                    continue  # long, or the estimator takes one label
                runs = [train(program, a.data, name, estimator, epochs, f"{eta:g}", a.threads) for eta in GRID]
                grid = [run["train"]["log_loss"] if run else float("inf") for run in runs]
                auto = train(program, a.data, name, estimator, epochs, "auto", a.threads)
                if not auto:
                    print(f"{name:<20} {estimator:<9} {epochs:>6} " + " ".join(f"{x:>9.4g}" for x in grid) +
                          "  diverges with the rate chosen, or with every rate")
                    over += min(grid) < float("inf")
                    rows += 1
                    continue
                found = auto["train"]["log_loss"]
                excess = found / min(grid) - 1
                tried = sum(t["rows"] * t["epochs"] for t in auto["eta_tried"])
                examples = tried / (epochs * auto["examples"])
                seconds = auto["tune_seconds"] / auto["train_seconds"]
                print(f"{name:<20} {estimator:<9} {epochs:>6} " + " ".join(f"{x:>9.4g}" for x in grid) +
                      f" {auto['eta']:>7g} {found:>9.4g} {100 * excess:>+7.1f}% {100 * examples:>7.1f}% "
                      f"{100 * seconds:>6.1f}%", flush=True)
                if table:
                    print(",".join(map(str, [name, estimator, epochs] + grid + [auto["eta"], found, excess, examples,
                                                                                seconds])), file=table, flush=True)
                rows += 1
                over += excess > 0.05
                dear += seconds > 0.3
                worst = max(worst, excess) if worst is not None else excess
    if worst is not None:
        print(f"{rows} runs: {over} more than 5 % above the best of the grid (worst {100 * worst:+.1f} %), "
              f"{dear} with more than 30 % extra time")


main()
