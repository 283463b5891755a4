"""Expected calibration error and log-loss of the default command's models on test rows, before and after `xsoftmax calibrate`
with a tenth of the training rows, which the model has not seen.

The log-loss after a calibration of each class by itself (several labels a row) is another measure than before, and left out.
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


def said_by(program, *arguments):
    done = subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measures(program, model, test, threads):
    found = said_by(program, "evaluate", "--model", model, "--data", test, "--threads", str(threads))["test"]
    return {"error": found["calibration_error"], "log_loss": found["log_loss"]}


def calibrate(program, train, test, labels, threads, limit, scratch):
    """A line of the table; or None, and why."""
    part, aside, model, honest = (os.path.join(scratch, n) for n in ("part.txt", "aside.txt", "model", "honest"))
    subprocess.run([program, "convert", "--data", train, "--labels", labels, "--to", "xc", "--output", part, "--split", "0.9",
                    "--rest", aside], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    flags = ["--data", part, "--labels", labels, "--model", model, "--evaluate-train", "no"]
    said, why = train_json(program, flags, threads, limit)
    if not said:
        return None, why
    before = measures(program, model, test, threads)
    fitted = said_by(program, "calibrate", "--model", model, "--data", aside, "--output", honest, "--threads", str(threads))
    after = measures(program, honest, test, threads)
    return {"method": said["method"], "scale": fitted["scale"], "shift": fitted["shift"], "calibration": fitted["method"],
            "before": before, "after": after}, None


def show(name, row):
    def number(x, digits):
        return "-" if x is None else f"{x:.{digits}f}"
    same = row["calibration"] == "temperature"
    print(f"{name:<24} {row['method']:<16} {number(1 / row['scale'], 2):>6} {number(row['shift'], 2):>6} "
          f"{number(row['before']['error'], 3):>6} {number(row['after']['error'], 3):>6} "
          f"{number(row['before']['log_loss'], 3):>8} {number(row['after']['log_loss'] if same else None, 3):>8}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/calibration.sh")
    parser.add_argument("data", nargs="*", metavar="DATA")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each set")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="seconds that a run may take")
    given = parser.parse_args()
    names = given.data or all_sets()
    if not given.json:
        print(f"{'':<24} {'method':<16} {'temp.':>6} {'shift':>6} {'ECE':>6} {'after':>6} {'log-loss':>8} {'after':>8}",
              flush=True)
    failed = False
    for name in names:
        folder, labels = set_of(name)
        train, test = file_of(folder, "train"), file_of(folder, "test")
        row, why = None, f"no train and test file in {folder}"
        with tempfile.TemporaryDirectory(prefix="xsoftmax-calibration.") as scratch:
            if train and test:
                row, why = calibrate(given.program, train, test, labels or "first", given.threads, given.limit, scratch)
        if not row:
            failed = True
            print(f"{name}: {why}", file=sys.stderr)
        elif given.json:
            print(json.dumps({"data": name, **row}), flush=True)
        else:
            show(name, row)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
