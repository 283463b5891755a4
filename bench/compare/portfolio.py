"""Runs each line of the automatic choice's portfolio by itself, and the choice, on the same rows; prints P@1, log-loss and
seconds of each, and the regret: what the best line has more than the choice.

A line by itself has its own search for a learning rate (--eta auto), if it has one, and rows of unit length. --leave-one-out
reads what --json printed, and fits each constant that was fitted to data on all sets but one.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from defaults import all_sets, file_of, parser_of, set_of, train_json  # noqa: E402

# Made-up rows: NAME=NUMBER of bench_generate_labels.
FAMILIES = {
    "2 features": dict(rows=20000, features=4000, classes=2000, groups=400, labels=0.05, own=1, kept=0.9, shared=1, noise=0.5),
    "200 features": dict(rows=5000, features=40000, classes=2000, groups=100, labels=0.05, own=8, shared=200, noise=90),
    "1 label a class": dict(rows=20000, features=20000, classes=20000, groups=1000, labels=0.05, zipf=0),
    "50 labels a class": dict(rows=50000, features=10000, classes=1000, groups=100, labels=0.05, zipf=0),
    "1000 labels a class": dict(rows=100000, features=10000, classes=100, groups=20, labels=0.05, zipf=0),
    "100,000 classes, 3 labels": dict(rows=60000, features=30000, classes=100000, groups=2000, labels=3),
    "noise": dict(rows=30000, features=20000, classes=5000, groups=200, labels=0.05, kept=0.2, stray=0.1, noise=60),
}


def lines(several, features):
    """(name, flags) of each line."""
    exact = "one-vs-all" if several else "softmax"
    vectors = ["--estimator", "sampled-softmax", "--set", "negatives=1000", "--set", "sampler=frequency", "--set", "shared=yes",
               "--hidden", "512" if features >= 32 else "256", "--optimizer", "adagrad", "--set", "optimizer.initial=0.004",
               "--batch", "128", "--eta", "0.05"]
    return [
        ("label tree", ["--method", "label-tree"]),
        ("3 label trees", ["--method", "label-tree", "--set", "trees=3"]),
        ("exact", ["--estimator", exact]),
        ("embedding", [*vectors, "--epochs", "4", "--schedule", "step:0.562"]),
        ("embedding, 10 epochs", [*vectors, "--epochs", "10", "--schedule", "step:0.794"]),
    ]


def run(program, flags, threads, limit):
    """What a run said; None if it failed or took too long, which is printed."""
    said, why = train_json(program, [*flags, "--evaluate-train", "no"], threads, limit)
    if why:
        print(why, file=sys.stderr)
    return said


def figures(said):
    tested = said["test"]
    return {"precision": tested["precision"]["1"], "ndcg": tested["ndcg"]["5"], "log_loss": tested["log_loss"],
            "choice_seconds": said["choice_seconds"], "train_seconds": said["train_seconds"]}


def compare(program, name, train, test, labels, threads, limit):
    rows = ["--data", train, "--test", test, "--labels", labels]
    shape = subprocess.run([program, "train", "--data", train, "--labels", labels, "--dry-run", "--json"],
                           stdout=subprocess.PIPE, check=True)
    counts = json.loads(shape.stdout)
    several = counts["labels"] > counts["examples"]
    features = counts["values"] / counts["examples"]
    chosen = run(program, rows, threads, limit)
    if not chosen:
        return None
    row = {"data": name, "rows": counts["examples"], "classes": counts["classes"], "features_a_row": features,
           "labels_a_class": counts["labels"] / counts["classes"],
           "pass": 2 * counts["examples"] * counts["classes"] * (features + 8),
           "method": chosen["method"], "chosen": figures(chosen), "lines": {}}
    for line, flags in lines(several, features):
        if line == "exact" and row["pass"] > 6e10:
            continue
        said = run(program, [*rows, *flags, *([] if "--method" in flags else ["--transform", "unit"])], threads, limit)
        if said:
            row["lines"][line] = figures(said)
    best = max((f["precision"] for f in row["lines"].values()), default=math.nan)
    losses = [f["log_loss"] for f in row["lines"].values() if f["log_loss"] is not None]
    row["regret_precision"] = best - row["chosen"]["precision"]
    row["regret_log_loss"] = (row["chosen"]["log_loss"] - min(losses)
                              if losses and row["chosen"]["log_loss"] is not None and not several else None)
    return row


def show(row):
    def one(f):
        loss = "-" if f["log_loss"] is None else f"{f['log_loss']:.3f}"
        return f"{f['precision']:.4f} {loss:>7} {f['choice_seconds']:>7.1f} {f['train_seconds']:>7.1f}"
    print(f"{row['data']}: {row['rows']:,} rows, {row['classes']:,} classes, {row['features_a_row']:.1f} features a row, "
          f"{row['labels_a_class']:.1f} labels a class")
    for name, f in row["lines"].items():
        print(f"    {name:<28} {one(f)}")
    regret = "" if row["regret_log_loss"] is None else f", log-loss {row['regret_log_loss']:+.3f}"
    print(f"    {'chosen: ' + row['method']:<28} {one(row['chosen'])}   regret: P@1 {row['regret_precision']:+.4f}{regret}",
          flush=True)


def threshold(rows):
    """Labels a class from which a method that samples classes is better than a label tree: the geometric mean of the most
    where it is not, and the least above that where it is."""
    worse = [r["labels_a_class"] for r in rows if not better(r)]
    above = [r["labels_a_class"] for r in rows if better(r) and r["labels_a_class"] > max(worse, default=0)]
    return math.sqrt(max(worse, default=1) * min(above)) if above else math.inf


def better(row):
    trees = [f["precision"] for name, f in row["lines"].items() if "tree" in name]
    vectors = [f["precision"] for name, f in row["lines"].items() if "embedding" in name]
    return max(vectors) > max(trees)


def leave_one_out(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [r for r in rows if r["pass"] > 6e9 and any("tree" in n for n in r["lines"]) and any("emb" in n for n in r["lines"])]
    print(f"{'without':<28} {'labels a class':>14} {'threshold':>10}   a method that samples is")
    for row in rows:
        fitted = threshold([r for r in rows if r is not row])
        print(f"{row['data']:<28} {row['labels_a_class']:>14.1f} {fitted:>10.1f}   {'better' if better(row) else 'worse'}, "
              f"and {'tried' if row['labels_a_class'] >= fitted else 'not tried'}")


def made_up(generator, name, folder):
    paths = []
    for part in ("train", "test"):
        shape = dict(FAMILIES[name])
        shape["rows"] = shape["rows"] if part == "train" else 2000
        path = os.path.join(folder, f"{part}.txt")
        with open(path, "w", encoding="ascii") as out:
            subprocess.run([generator, part, *(f"{k}={v}" for k, v in shape.items())], stdout=out, stderr=subprocess.DEVNULL,
                           check=True)
        paths.append(path)
    return paths


def main():
    parser = parser_of("bench/portfolio.sh", 600, "a run")
    parser.add_argument("--generator", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--families", action="store_true", help="made-up rows, too")
    parser.add_argument("--leave-one-out", metavar="FILE", help="what --json printed")
    given = parser.parse_args()
    if given.leave_one_out:
        return leave_one_out(given.leave_one_out)
    names = given.data or ([] if given.families else all_sets())
    if not given.json:
        print(f"    {'':<28} {'P@1':>6} {'loss':>7} {'choice':>7} {'train s':>7}")
    sets = []
    for name in names:
        folder, labels = set_of(name)
        sets.append((name, file_of(folder, "train"), file_of(folder, "test"), labels or "first"))
    failed = False
    with tempfile.TemporaryDirectory(prefix="xsoftmax-portfolio.") as scratch:
        for name, train, test, labels in sets + [(n, None, None, None) for n in (FAMILIES if given.families else ())]:
            if labels is None:
                train, test = made_up(given.generator, name, scratch)
                labels = "all" if FAMILIES[name]["labels"] > 1 else "first"
            row = compare(given.program, name, train, test, labels, given.threads, given.limit) if train and test else None
            failed |= row is None
            if row is None:
                print(f"{name}: no result", file=sys.stderr)
            elif given.json:
                print(json.dumps(row), flush=True)
            else:
                show(row)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
