"""Runs each line of the automatic choice's portfolio by itself, and the choice, on the same rows; prints P@1, log-loss and
seconds of each, and the regret: what the best line has more than the choice.

A line by itself has its own search for a learning rate (--eta auto), if it has one, and rows of unit length. --leave-one-out
reads what --json printed: for each set it fits the constants that say which kinds of line are tried to all the others, and
prints what is tried with them, the regret, and the regret if that is tried and the trials find the best of it.
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

# Made-up rows: NAME=NUMBER of bench_generate_labels, or of the generator that is named.
FAMILIES = {
    "alike, one label": dict(generator="bench_generate_alike"),
    "alike, 3 labels": dict(generator="bench_generate_alike", rows=60000, features=20000, classes=100000, groups=1000, labels=3,
                            seed=5),
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


# What decides which kinds of line are tried (lib/auto/candidates.c): exact methods up to CHEAP multiplications a pass or up to
# FEW classes, label trees from QUICK, methods that sample classes beyond those and, beside trees, from TAUGHT labels a class,
# where rows of less than KEY features have no trees beside them. KEY is not fitted here: trials, not P@1, say what it is for.
CHEAP, QUICK, TAUGHT, FEW, KEY = 6e9, 1.6e9, 8.0, 100, 4.0
KINDS = {"tree": ("label tree", "3 label trees"), "exact": ("exact",), "sampled": ("embedding",)}


def best_of(row, kind):
    """The best P@1 of a kind's lines, or None if none of them ran."""
    return max((row["lines"][n]["precision"] for n in KINDS[kind] if n in row["lines"]), default=None)


def fit(rows, kind, count):
    """The count from which label trees are better than the exact lines, or sampled lines than label trees: the geometric mean of
    the largest where they are not, and the least above that where they are. None if no set tells."""
    other = "exact" if kind == "tree" else "tree"
    both = [(r[count], best_of(r, kind) > best_of(r, other)) for r in rows
            if best_of(r, kind) is not None and best_of(r, other) is not None and (kind == "tree" or not scores_all(r))]
    worst = max((c for c, better in both if not better), default=None)
    best = min((c for c, better in both if better and c > (worst or 0)), default=None)
    return math.sqrt(worst * best) if worst and best else None


def scores_all(row):
    return row["pass"] <= CHEAP or row["classes"] <= FEW


def tried(row, quick, taught):
    """The kinds of line that a choice with these constants tries."""
    labels = row["labels_a_class"] >= taught
    trees = row["pass"] > quick and not (row["features_a_row"] < KEY and labels and not scores_all(row))
    sampled = not scores_all(row) and (not trees or labels)
    return {k for k, yes in (("tree", trees), ("exact", scores_all(row)), ("sampled", sampled)) if yes}


def leave_one_out(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    print(f"{'without':<28} {'pass':>8} {'trees from':>10} {'labels/class':>12} {'sampled from':>12}   {'tried':<16} "
          f"{'regret':>7} {'left out':>8} {'log-loss':>8}")
    for row in rows:
        others = [r for r in rows if r is not row]
        quick, taught = fit(others, "tree", "pass") or QUICK, fit(others, "sampled", "labels_a_class") or TAUGHT
        now, left = tried(row, QUICK, TAUGHT), tried(row, quick, taught)
        regret = row["regret_precision"]
        if left != now:
            best = max(f["precision"] for f in row["lines"].values())
            regret = best - max((p for p in (best_of(row, k) for k in left) if p is not None), default=math.nan)
        loss = "-" if row["regret_log_loss"] is None else f"{row['regret_log_loss']:+.3f}"
        print(f"{row['data']:<28} {row['pass']:>8.1e} {quick:>10.1e} {row['labels_a_class']:>12.1f} {taught:>12.1f}   "
              f"{', '.join(sorted(left)):<16} {row['regret_precision']:>+7.4f} {regret:>+8.4f} {loss:>8}", flush=True)


def made_up(folder_of_generators, name, folder):
    paths = []
    for part in ("train", "test"):
        shape = dict(FAMILIES[name])
        generator = os.path.join(folder_of_generators, shape.pop("generator", "bench_generate_labels"))
        if part == "test":
            shape["rows"] = 5000 if "alike" in generator else 2000
        path = os.path.join(folder, f"{part}.txt")
        with open(path, "w", encoding="ascii") as out:
            subprocess.run([generator, part, *(f"{k}={v}" for k, v in shape.items())], stdout=out, stderr=subprocess.DEVNULL,
                           check=True)
        paths.append(path)
    return paths


def main():
    parser = parser_of("bench/portfolio.sh", 600, "a run")
    parser.add_argument("--generators", required=True, help=argparse.SUPPRESS)
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
                train, test = made_up(given.generators, name, scratch)
                labels = "all" if FAMILIES[name].get("labels", 1) > 1 else "first"
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
