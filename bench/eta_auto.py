#!/usr/bin/env python3
"""Is `--eta auto` as good as the best of the grid, and what does it cost?

    python3 bench/eta_auto.py BUILD [--data FOLDER] [--sets a,b] [--estimators a,b] [--epochs 10,50] [--seeds 1,2]
                              [--csv FILE] [--grid FILE]

For each set, estimator and seed: a whole run with each rate of the grid 10^-3 ... 10^3, then one with the rate that is
chosen, all with that seed, rows of unit length, one thread and the command's other defaults. The objective is the exact
log-loss of training rows, or the exact loss of `margin` and `one-vs-all`; test rows are not read. Prints the excess of
the chosen rate over the best of the grid, and what the trials cost beside the run: in examples handled, and in processor
time (the least of several runs where they are short). --grid takes the grid's objectives from the --csv of an earlier run
where they are in it. Where a rate outside of the grid, or between, was chosen, the excess can be negative. With several
seeds it says besides how often the rate misses that was best in the whole grid of the other seeds, or of one of them:
what knowing all about them tells of a run with another seed.

Sets and estimators that would take long are left out unless they are asked for by name."""
import argparse
import math
import os
import pathlib
import subprocess
import sys

# Set: labels kept.
SETS = {
    "bibtex": "first", "corel5k": "first", "20news": "first", "delicious": "first", "mnist": "first",
    "kg-fb15k237": "first", "s3rec-beauty": "first", "poetry-author-uni": "first",
    "bibtex:all": "all", "corel5k:all": "all", "delicious:all": "all", "hmc-cellcycle-go:all": "all",
}
DEFAULT = [name for name in SETS if name != "poetry-author-uni"]
LARGE = ("kg-fb15k237", "s3rec-beauty", "poetry-author-uni")
EXACT = ("softmax", "bouchard", "margin", "one-vs-all")
SEVERAL = ("softmax", "bouchard", "margin", "one-vs-all", "one-vs-all-sampled", "sampled-softmax")


def estimators(program):
    text = subprocess.run([program, "estimators"], check=True, text=True, capture_output=True).stdout
    return [line.split()[0] for line in text.splitlines() if line and line[0].islower()]


def fitting(name, asked, every):
    """The estimators to run on a set."""
    if asked:
        return asked.split(",")
    several = SETS[name] == "all"
    return [e for e in every if (e in SEVERAL or not several) and not (e in EXACT and name in LARGE)]


def missed(grids, known, seed):
    """Whether the rate with the least sum of logarithms in the grids of some seeds is more than 5 % off in another's."""
    def size(objective):
        return math.log(max(objective, 1e-9)) if math.isfinite(objective) else 1e3
    sums = [sum(size(grids[s][k]) for s in known) for k in range(len(grids[seed]))]
    return grids[seed][sums.index(min(sums))] > 1.05 * min(grids[seed])


def print_other_seeds(runs):
    """`runs`: for each set, number of epochs and estimator, the grid of each seed."""
    by_all, by_one = [], []
    for grids in runs.values():
        for seed in grids if len(grids) > 1 else ():
            others = [s for s in grids if s != seed]
            by_all.append(missed(grids, others, seed))
            by_one += [missed(grids, [s], seed) for s in others]
    if by_all:
        print(f"by the whole grids of the other seeds: {sum(by_all)} of {len(by_all)} runs are more than 5 % above; of one "
              f"other seed: {100 * sum(by_one) / len(by_one):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--data", default=os.environ.get("XSM_DATA", str(root / "../shared/data")))
    parser.add_argument("--sets", default=",".join(DEFAULT))
    parser.add_argument("--estimators", default="")
    parser.add_argument("--epochs", default="10")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--csv")
    parser.add_argument("--grid")
    a = parser.parse_args()
    if not pathlib.Path(a.data).is_dir():
        print(f"skipped: there is no {a.data}; see --data")
        sys.exit(77)
    known = {}
    if a.grid:
        for line in open(a.grid, encoding="utf-8").read().splitlines()[1:]:
            *key, grid = line.split(",", 4)
            known[tuple(key)] = grid.split(",")[:7]
    table = open(a.csv, "w", encoding="utf-8") if a.csv else None
    if table:
        print("set,epochs,estimator,seed,0.001,0.01,0.1,1,10,100,1000,auto_eta,auto,examples,time", file=table)
    print(f"{'set':<18} {'estimator':<18} {'epochs':>6} {'seed':>4} {'best':>6} {'objective':>9} {'auto':>6} "
          f"{'objective':>9} {'excess':>9} {'examples':>8} {'time':>7}")
    every = estimators(a.build / "examples" / "xsoftmax")
    runs, over, dear, grids = 0, 0, 0, {}
    for epochs in a.epochs.split(","):
        for name in a.sets.split(","):
            base = name.split(":")[0]
            names = fitting(name, a.estimators, every)
            held = all((name, epochs, e, s) in known for e in names for s in a.seeds.split(","))
            command = [a.build / "bench" / "eta_auto", f"{a.data}/{base}/{base}_train.txt.gz", SETS[name], epochs,
                       a.seeds, ",".join(names)] + ["auto"] * held
            with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as run:
                for line in run.stdout:
                    estimator, seed, *numbers = line.strip().split(",")
                    if held:
                        numbers[:7] = known[name, epochs, estimator, seed]
                    *grid, eta, found, examples, seconds = map(float, numbers)
                    grids.setdefault((name, epochs, estimator), {})[seed] = grid
                    best = min(grid)
                    excess = found / best - 1
                    print(f"{name:<18} {estimator:<18} {epochs:>6} {seed:>4} {10.0 ** (grid.index(best) - 3):>6g} "
                          f"{best:>9.4g} {eta:>6g} {found:>9.4g} {100 * excess:>+8.1f}% {100 * examples:>7.1f}% "
                          f"{100 * seconds:>6.1f}%", flush=True)
                    if table:
                        print(name, epochs, estimator, seed, *numbers, sep=",", file=table, flush=True)
                    runs += 1
                    over += excess > 0.05
                    dear += seconds > 0.3
            if run.returncode:
                sys.exit(f"{' '.join(map(str, command))}: exit status {run.returncode}")
    print(f"{runs} runs: {over} more than 5 % above the best of the grid, {dear} with more than 30 % extra time")
    print_other_seeds(grids)


main()
