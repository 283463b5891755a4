"""Skip-gram by the library and by fastText; see bench/compare_words.sh."""
import argparse
import collections
import csv
import gzip
import json
import math
import os
import pathlib
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SETS = ["EN-MEN-TR-3k.txt", "EN-RG-65.txt", "EN-SIMLEX-999.txt", "EN-WS-353-ALL.txt"]
DIMENSION, WINDOW, NEGATIVES, ETA, MIN_COUNT = 100, 5, 5, 0.05, 5
THEIR_POWER = 0.5
TIMES = ["seconds", "processor"]
OURS, THEIRS = "xsoftmax", "fasttext"


def timed(command):
    """Seconds of the clock, and of processors, which mean something on a busy machine, too; and what went to stderr."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"compare_words: {' '.join(map(str, command))}: {done.stderr.strip()[-300:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "processor": processor}, done.stderr


def scores_of(program, vectors, data):
    """Spearman's correlation by set, and the share of analogies answered rightly."""
    def ask(command, path):
        return subprocess.run([program, command, vectors, path], capture_output=True, text=True, check=True).stdout

    result = {}
    for name in SETS:
        path = data / "text" / "similarity" / name
        if path.exists():
            result[name.removeprefix("EN-").removesuffix(".txt").lower()] = float(ask("similarity", path).split()[1])
    questions = data / "text" / "questions-words.txt"
    if questions.exists():
        result["analogies %"] = float(ask("analogies", questions).splitlines()[-1].split()[1])
    return result


def our_losses(history):
    with open(history, newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def their_losses(progress, epochs):
    """The mean loss of each epoch out of fastText's progress: what it prints is the mean since the start."""
    said = [(0.0, 0.0)] + [(float(share) / 100, float(loss)) for share, loss in
                           re.findall(r"Progress:\s*([0-9.]+)%.*?(?:avg\.)?loss:\s*([0-9.]+)", progress)]
    losses, before = [], (0.0, 0.0)
    for epoch in range(1, epochs + 1):
        share, mean = min(said, key=lambda point: abs(point[0] - epoch / epochs))
        if share <= before[0]:
            return []  # it printed too seldom
        losses.append((share * mean - before[0] * before[1]) / (share - before[0]))
        before = share, mean
    return losses


def without_rare_words(raw):
    """The text as both programs see it. fastText, which counts the words of its vocabulary until they are as many as all
    of the file times the epochs, would otherwise go on for longer than its epochs."""
    lines = [line.split() for line in raw.splitlines()]
    counts = collections.Counter(word for line in lines for word in line)
    return b"".join(b" ".join(word for word in line if counts[word] >= MIN_COUNT) + b"\n" for line in lines)


class Runs:
    """What has been measured so far: {program: {name: [value by seed]}}, and in a file as it comes."""

    def __init__(self, folder):
        self.values = {OURS: {}, THEIRS: {}}
        self.losses = {OURS: [], THEIRS: []}
        self.path = folder / "runs.csv"
        self.path.unlink(missing_ok=True)

    def add(self, program, seed, measured, losses):
        for key, value in measured.items():
            self.values[program].setdefault(key, []).append(value)
        self.losses[program].append(losses)
        fresh = not self.path.exists()
        with open(self.path, "a", newline="") as file:
            out = csv.writer(file)
            if fresh:
                out.writerow(["program", "seed", *measured, "loss by epoch"])
            out.writerow([program, seed, *measured.values(), " ".join(f"{loss:.6f}" for loss in losses)])
        print(f"    {program}, seed {seed}: " + ", ".join(f"{key} {value:.4g}" for key, value in measured.items()),
              file=sys.stderr, flush=True)

    def pairs(self):
        return min(len(values.get("seconds", [])) for values in self.values.values())

    def rows(self, words):
        """(name, ours, deviation, fastText's, deviation, ratio, difference over its standard error), of whole pairs."""
        n = self.pairs()
        for key in self.values[OURS] if n else []:
            means, deviations = [], []
            for values in self.values.values():
                means.append(statistics.mean(values[key][:n]))
                deviations.append(statistics.stdev(values[key][:n]) if n > 1 else None)
            error = math.sqrt(sum(d * d for d in deviations) / n) if n > 1 else 0
            sigmas = (means[0] - means[1]) / error if error > 0 else None
            ratio = means[0] / means[1] if means[1] else math.nan
            yield key, means[0], deviations[0], means[1], deviations[1], ratio, None if key in TIMES else sigmas
            if key in TIMES:
                yield (f"words/{key if key == TIMES[1] else 'second'}", words / means[0], None, words / means[1], None,
                       1 / ratio, None)

    def mean_losses(self, program):
        whole = [losses for losses in self.losses[program] if losses]
        return [statistics.mean(epoch) for epoch in zip(*whole)]


def draw(runs, folder, scripts):
    """Loss by epoch, and by the processor time that has gone by then, into a CSV file and plots."""
    n, curves = runs.pairs(), {}
    for program in runs.values:
        losses = runs.mean_losses(program)
        each = statistics.mean(runs.values[program]["processor"][:n]) / max(len(losses), 1)
        curves[program] = [(i + 1, (i + 1) * each, loss) for i, loss in enumerate(losses)]
    with open(folder / "compare_words.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["epoch", "xsoftmax", "xsoftmax_seconds", "fasttext", "fasttext_seconds"])
        for i, (epoch, seconds, loss) in enumerate(curves[OURS]):
            theirs = curves[THEIRS][i][::-1][:2] if i < len(curves[THEIRS]) else ("", "")
            out.writerow([epoch, f"{loss:.6f}", f"{seconds:.3f}"] + [f"{v:.6f}" if v != "" else "" for v in theirs])
    for kind in ("svg", "png"):
        try:
            subprocess.run(["gnuplot", "-e", f"folder = '{folder}'; kind = '{kind}'; scripts = '{scripts / 'papers'}'",
                            scripts / "compare" / "words.gp"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"compare_words: no plot: {error}", file=sys.stderr)
            return
    print(f"Runs, losses by epoch and plots: {folder}/", file=sys.stderr)


def report(runs, words, options, folder):
    n = runs.pairs()
    if n == 0:
        print("compare_words: no pair of runs is complete", file=sys.stderr)
        return
    lines = list(runs.rows(words))
    losses = {program: runs.mean_losses(program) for program in runs.values}
    if options.json:
        for place, program in ((1, OURS), (3, THEIRS)):
            print(json.dumps({"program": program, "threads": options.threads, "epochs": options.epochs, "seeds": n,
                              **{line[0]: line[place] for line in lines},
                              "deviations": {line[0]: line[place + 1] for line in lines if line[place + 1] is not None},
                              "losses": losses[program]}))
    else:
        print(f"{words} words with those of all {options.epochs} epochs, {options.threads} threads, {n} seeds; "
              f"D {DIMENSION}, window {WINDOW}, {NEGATIVES} negatives\n")
        print(f"{'':16}{OURS:>12}{'+-':>8}{THEIRS:>12}{'+-':>8}{'ratio':>8}{'difference/its error':>23}")
        for key, ours, our_spread, theirs, their_spread, ratio, sigmas in lines:
            form = ",.0f" if key.startswith("words") else ".2f" if key in TIMES else ".4f"
            text = f"{key:16}"
            for value, spread in ((ours, our_spread), (theirs, their_spread)):
                text += f"{value:>12{form}}" + (f"{spread:>8{form}}" if spread is not None else " " * 8)
            print(text + f"{ratio:>8.2f}" + (f"{sigmas:>+23.1f}" if sigmas is not None else ""))
        print()
        for program, by_epoch in losses.items():
            if by_epoch:
                print(f"loss by epoch, {program}:", " ".join(f"{loss:.4f}" for loss in by_epoch))
        if options.power != THEIR_POWER:
            print("The losses are of different negatives, and cannot be compared; --power 0.5 takes fastText's, and draws "
                  "them.")
    if options.power == THEIR_POWER:
        draw(runs, folder, pathlib.Path(__file__).resolve().parent.parent)


def main():
    parser = argparse.ArgumentParser(prog="compare_words.sh", description="Skip-gram, the library's and fastText's.")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--text", type=pathlib.Path, help="the text, a line a sentence")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each, of which means and deviations are shown")
    parser.add_argument("--power", type=float,
                        help="of the counts that the library's negatives are drawn by, its own choice if not given; "
                             "fastText's is 0.5 and cannot be set")
    parser.add_argument("--batch", type=int, default=0, help="the library's centres a batch; 0 is its own choice")
    parser.add_argument("--spread", type=float, help="input vectors start within it on both sides; fastText's is 1/D")
    parser.add_argument("--ends", action="store_true",
                        help="end the library's lines with the word </s>, as fastText does with all that it reads")
    parser.add_argument("--json", action="store_true", help="a line of JSON a program")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        source = options.text
        if source is None:
            parts = [options.data / "text" / name for name in ["brown.txt.gz", "ptb.train.txt.gz"]]
            if not all(part.exists() for part in parts):
                sys.exit(f"compare_words: no text in {options.data / 'text'}; set XSM_DATA, or give --text")
            # The lines are mixed: with one corpus behind the other, a falling learning rate makes the scores those of
            # what comes last, and fastText, which goes on a little beyond its epochs, comes round to the first again.
            lines = [line for part in parts for line in gzip.decompress(part.read_bytes()).splitlines(keepends=True)]
            random.Random(1).shuffle(lines)
            raw = b"".join(lines)
        else:
            raw = source.read_bytes()
        raw = without_rare_words(raw)
        text, our_text = work / "text.txt", work / "ours.txt"
        text.write_bytes(raw)
        our_text.write_bytes(raw.replace(b"\n", b" </s>\n") if options.ends else raw)
        words = len(raw.split()) * options.epochs
        out, history = work / "vectors", work / "history.csv"
        common = [("dimension", "dim", DIMENSION), ("window", "ws", WINDOW), ("negatives", "neg", NEGATIVES),
                  ("epochs", "epoch", options.epochs), ("eta", "lr", ETA), ("min-count", "minCount", MIN_COUNT),
                  ("subsample", "t", 1e-4), ("threads", "thread", options.threads)]
        ours = [options.program, "train", our_text, f"{out}.vec", "--batch", str(options.batch), "--history", history]
        ours += ["--power", str(options.power)] if options.power is not None else []
        ours += ["--spread", str(options.spread)] if options.spread else []
        # Whole words alone, as here; its default adds their parts, which takes several times as long.
        theirs = ["fasttext", "skipgram", "-input", text, "-output", out, "-minn", "0", "-maxn", "0", "-verbose", "2"]
        for our, their, value in common:
            ours += [f"--{our}", str(value)]
            theirs += [f"-{their}", str(value)]
        runs = Runs(options.folder)
        for stop in (signal.SIGINT, signal.SIGTERM):  # in the background, too, where the shell has them ignored
            signal.signal(stop, signal.default_int_handler)
        try:
            for seed in range(1, options.seeds + 1):
                for name, command in ((OURS, ours + ["--seed", str(seed)]), (THEIRS, theirs + ["-seed", str(seed)])):
                    measured, said = timed(command)
                    losses = our_losses(history) if name == OURS else their_losses(said, options.epochs)
                    runs.add(name, seed, measured | scores_of(options.program, f"{out}.vec", options.data), losses)
        except KeyboardInterrupt:
            print("compare_words: stopped; of the pairs of runs that are complete:", file=sys.stderr)
        report(runs, words, options, options.folder)


if __name__ == "__main__":
    main()
