"""Runs the default command of `xsoftmax train` on data sets and prints what came of it beside what others reach there.

The goals are figures of other programs on the same rows (P@1; for all labels P@1/P@3/P@5), and the seconds that theirs took.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("XSM_DATA", os.path.join(ROOT, "..", "shared", "data"))

# (P@1, @3, @5), seconds
GOALS = {
    "bibtex": ((0.393,), None),
    "delicious": ((0.210,), None),
    "kg-fb15k237": ((0.178,), 16.4),
    "s3rec-beauty": ((0.030,), 18.5),
    "poetry-author-uni": ((0.381,), 108),
    "bibtex:all": ((0.634, 0.393, 0.287), 1.3),
    "delicious:all": ((0.670, 0.599, 0.554), 14.5),
}
DEBIAN = "debian-maintainers"


def file_of(folder, part):
    """The one file of a folder that holds that part."""
    for pattern in (f"*_{part}.txt.gz", f"*_{part}.txt", f"{part}.txt.gz", f"{part}.txt"):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        if found:
            return found[0]
    return None


def set_of(name):
    """The folder and the labels, or None for those by default, of DATA."""
    bare, _, labels = name.partition(":")
    return bare if os.path.isdir(bare) else os.path.join(DATA, bare), labels or None


def all_sets():
    """The names of the sets of DATA, if it is there."""
    return sorted(n for n in os.listdir(DATA) if file_of(os.path.join(DATA, n), "train")) if os.path.isdir(DATA) else []


def parser_of(script, limit, limited):
    """The arguments that the comparisons share."""
    parser = argparse.ArgumentParser(prog=script)
    parser.add_argument("data", nargs="*", metavar="DATA")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each set")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=limit, help=f"seconds that {limited} may take")
    return parser


def train_json(program, flags, threads, limit):
    """What `xsoftmax train` said; or None, and why."""
    try:
        done = subprocess.run([program, "train", *flags, "--json", "--threads", str(threads)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, f"not done in {limit:g} s"
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace").strip().splitlines()[-1]
    return json.loads(done.stdout), None


def debian(folder):
    """Makes the maintainers' rows; None where apt has no lists."""
    try:
        lists = subprocess.run(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if not lists.stdout.strip():
            return None
    except OSError:
        return None
    made = subprocess.run(["sh", os.path.join(ROOT, "examples", "debian-packages.sh"), folder], stdout=subprocess.DEVNULL,
                          check=False)
    return folder if made.returncode == 0 else None


def run(program, name, folder, labels, threads, limit):
    """A line of the table, or the reason why there is none."""
    train, test = file_of(folder, "train"), file_of(folder, "test")
    if not train or not test:
        return {"data": name, "skipped": f"no train and test file in {folder}"}
    said, why = train_json(program, ["--data", train, "--test", test, *(["--labels", labels] if labels else [])], threads, limit)
    if not said:
        return {"data": name, "skipped": why}
    choice, measured = said["choice"], said["test"]
    goal, seconds = GOALS.get(name, (None, None))
    return {
        "data": name,
        "method": said["method"],
        "transform": choice["transform"],
        "log_loss": measured["log_loss"],
        "precision": [measured["precision"][k] for k in ("1", "3", "5")],
        "choice_seconds": choice["seconds"],
        "train_seconds": said["train_seconds"],
        "goal": goal,
        "goal_seconds": seconds,
        "why": choice["why"],
    }


def figures(values):
    return "/".join(f"{v:.3f}".lstrip("0") for v in values)


def verdict(row):
    """What of the goal is missed, and by how much: places after the point that both have, and seconds."""
    if not row["goal"]:
        return "-"
    missed = [f"P@{k} {goal - got:.4f}".replace(" 0.", " .") for k, goal, got in zip((1, 3, 5), row["goal"], row["precision"])
              if got < goal]
    spent = row["choice_seconds"] + row["train_seconds"]
    if row["goal_seconds"] and spent > row["goal_seconds"]:
        missed.append(f"{spent - row['goal_seconds']:.1f} s")
    return "short by " + ", ".join(missed) if missed else "met"


def line(row):
    if "skipped" in row:
        return f"{row['data']:<20} {row['skipped']}"
    chosen = row["method"] + (f", {row['transform']}" if row["transform"] else "")
    goal = figures(row["goal"]) if row["goal"] else "-"
    within = f" < {row['goal_seconds']:g} s" if row["goal_seconds"] else ""
    loss = "-" if row["log_loss"] is None else f"{row['log_loss']:.3f}"
    return (f"{row['data']:<20} {chosen:<28} {loss:>8} {figures(row['precision']):>15} {row['choice_seconds']:>8.1f} "
            f"{row['train_seconds']:>8.1f}   {goal}{within}: {verdict(row)}")


def main():
    given = parser_of("bench/defaults.sh", 1200, "a set").parse_args()
    if not given.json:
        print(f"{'data':<20} {'chosen':<28} {'log-loss':>8} {'P@1/3/5':>15} {'choice s':>8} {'train s':>8}   goal")
    failed = False
    with tempfile.TemporaryDirectory(prefix="xsoftmax-defaults.") as scratch:
        for name in given.data or [*GOALS, DEBIAN]:
            folder, labels = set_of(name)
            if name.partition(":")[0] == DEBIAN:
                folder = debian(scratch)
                if not folder:
                    print(f"{name}: skipped, apt has no package lists (apt-get update fetches them)", file=sys.stderr)
                    continue
            row = run(given.program, name, folder, labels, given.threads, given.limit)
            failed |= "skipped" in row and bool(given.data)
            print(json.dumps(row) if given.json else line(row), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
