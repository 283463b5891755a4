"""Skip-gram by the library and by fastText; see bench/compare_words.sh."""
import argparse
import gzip
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SETS = ["EN-MEN-TR-3k.txt", "EN-RG-65.txt", "EN-SIMLEX-999.txt", "EN-WS-353-ALL.txt"]
DIMENSION, WINDOW, NEGATIVES, ETA, MIN_COUNT = 100, 5, 5, 0.05, 5


def timed(command):
    """Seconds of the clock, and of processors: the second number means something on a busy machine, too."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"compare_words: {' '.join(command)}: {done.stderr.strip()}")
    return {"seconds": seconds, "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def scores_of(program, vectors, data):
    """Spearman's correlation by set, and the share of analogies answered rightly."""
    result = {}
    for name in SETS:
        path = data / "text" / "similarity" / name
        if path.exists():
            text = subprocess.run([program, "similarity", vectors, path], capture_output=True, text=True, check=True).stdout
            result[name.removeprefix("EN-").removesuffix(".txt").lower()] = float(text.split()[1])
    questions = data / "text" / "questions-words.txt"
    if questions.exists():
        text = subprocess.run([program, "analogies", vectors, questions], capture_output=True, text=True, check=True).stdout
        result["analogies %"] = float(text.splitlines()[-1].split()[1])
    return result


def main():
    parser = argparse.ArgumentParser(prog="compare_words.sh", description="Skip-gram, the library's and fastText's.")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--text", type=pathlib.Path, help="the text, a line a sentence")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1,
                        help="runs of each, of which means and standard deviations are shown")
    parser.add_argument("--power", type=float, default=0.5,
                        help="of the counts that negatives are drawn by; fastText's is 0.5 and cannot be set")
    parser.add_argument("--batch", type=int, default=0, help="the library's centres a batch; 0 is its own choice")
    parser.add_argument("--json", action="store_true", help="a line of JSON a program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = options.text
        if text is None:
            text = folder / "text.txt"
            sources = [options.data / "text" / name for name in ["brown.txt.gz", "ptb.train.txt.gz"]]
            if not all(source.exists() for source in sources):
                sys.exit(f"compare_words: no text in {options.data / 'text'}; set XSM_DATA, or give --text")
            text.write_bytes(b"".join(gzip.decompress(source.read_bytes()) for source in sources))
        words = len(text.read_bytes().split())
        out, history = folder / "vectors", folder / "history.csv"
        common = [("dimension", "dim", DIMENSION), ("window", "ws", WINDOW), ("negatives", "neg", NEGATIVES),
                  ("epochs", "epoch", options.epochs), ("eta", "lr", ETA), ("min-count", "minCount", MIN_COUNT),
                  ("subsample", "t", 1e-4), ("threads", "thread", options.threads)]
        ours = [options.program, "train", str(text), f"{out}.vec", "--power", str(options.power), "--batch", str(options.batch),
                "--history", str(history)]
        # Whole words alone, as here; its default adds their parts, which takes several times as long.
        theirs = ["fasttext", "skipgram", "-input", str(text), "-output", str(out), "-minn", "0", "-maxn", "0",
                  "-verbose", "0"]
        for our, their, value in common:
            ours += [f"--{our}", str(value)]
            theirs += [f"-{their}", str(value)]
        rows = {"xsoftmax": {}, "fasttext": {}}
        for seed in range(1, options.seeds + 1):
            for name, command in [("xsoftmax", ours + ["--seed", str(seed)]), ("fasttext", theirs + ["-seed", str(seed)])]:
                measured = timed(command) | scores_of(options.program, f"{out}.vec", options.data)
                print(f"    {name}, seed {seed}: " + ", ".join(f"{key} {value:.4g}" for key, value in measured.items()),
                      file=sys.stderr, flush=True)
                for key, value in measured.items():
                    rows[name].setdefault(key, []).append(value)
        losses = [line.split(",")[2] for line in history.read_text().splitlines()[1:]]
    means = {name: {key: sum(values) / len(values) for key, values in row.items()} for name, row in rows.items()}
    for row in means.values():
        row["words/s"] = words * options.epochs / row["seconds"]
        row["words/processor s"] = words * options.epochs / row["processor"]
    spreads = {name: {key: statistics.stdev(values) for key, values in row.items()} if options.seeds > 1 else {}
               for name, row in rows.items()}
    if options.json:
        for name, row in means.items():
            print(json.dumps({"program": name, "threads": options.threads, "epochs": options.epochs, **row,
                              "deviations": spreads[name]}))
        return
    print(f"{words} words, {options.epochs} epochs, {options.threads} threads, {options.seeds} seeds; D {DIMENSION}, "
          f"window {WINDOW}, {NEGATIVES} negatives\n")
    print(f"{'':18}{'xsoftmax':>12}{'+-':>8}{'fasttext':>12}{'+-':>8}{'ratio':>9}")
    first = ["seconds", "processor", "words/s", "words/processor s"]
    for key in first + [key for key in means["xsoftmax"] if key not in first]:
        form = ",.0f" if key.startswith("words") else ".2f" if key in first else ".4f"
        line = f"{key:18}"
        for name in rows:
            deviation = spreads[name].get(key)
            line += f"{means[name][key]:>12{form}}" + (f"{deviation:>8{form}}" if deviation is not None else " " * 8)
        print(line + f"{means['xsoftmax'][key] / means['fasttext'][key]:>9.2f}")
    print("\nloss by epoch:", " ".join(f"{float(loss):.4f}" for loss in losses))


main()
