"""Text classification against fastText: the same lines, the same threads, one run.

Both programs get the training lines as text and read them within the time that is told. Settings of both are chosen on
a tenth of the training lines, which is no part of the time; then each trains once on all of them. Of xsoftmax that is
the transform alone: the rest is what `train` chooses by itself, within the time that is told.
"""
import argparse
import gzip
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

from rows import Rows


def newsgroups(folder):
    """20 Newsgroups by date: words by number, as often as they occur; their order is lost, so words alone."""
    lines = []
    for part in ("train", "test"):
        rows = Rows(f"{folder}/20news/20news_{part}.txt.gz")
        text = []
        for i, labels in enumerate(rows.labels):
            words = [w for index, value in rows.pairs(i) for w in [f"w{index}"] * int(value)]
            text.append(f"__label__g{labels[0]} {' '.join(words)}\n")
        random.Random(1).shuffle(text)  # they are in the order of their groups, and fastText takes them as they come
        lines.append(text)
    return lines[0], lines[1], 1


def brown(folder):
    """Sentences of the Brown corpus, which is ordered by genre and document: which hundredth of it is one from?"""
    with gzip.open(f"{folder}/text/brown.txt.gz", "rt") as file:
        sentences = [line.strip() for line in file if line.strip()]
    lines = [f"__label__p{i * 100 // len(sentences)} {s}\n" for i, s in enumerate(sentences)]
    random.Random(1).shuffle(lines)
    return lines[len(lines) // 5:], lines[:len(lines) // 5], 2


class Failed(Exception):
    pass


def run(command, threads):
    """Seconds of the clock and of processors, and what was printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        raise Failed(f"{command[0]}: {done.stderr.strip()[-300:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout)


def score(ranked, path):
    """Error and mean log-loss of lines of (label, probability), all labels of each; a probability below 1e-9 counts as
    that."""
    wrong = loss = count = 0
    with open(path) as lines:
        for given, line in zip(ranked, lines, strict=True):
            truth = line.split(None, 1)[0][len("__label__"):]
            wrong += max(given, key=given.get) != truth
            loss -= math.log(max(given.get(truth, 0.0), 1e-9))
            count += 1
    return wrong / count, loss / count


def fasttext(work, train, test, ngrams, setting, threads):
    lr, epochs = setting
    model = f"{work}/fasttext"
    seconds, processor, _ = run(["fasttext", "supervised", "-input", train, "-output", model, "-lr", str(lr),
                                 "-epoch", str(epochs), "-wordNgrams", str(ngrams), "-dim", "100", "-loss", "softmax",
                                 "-thread", str(threads),
                                 "-verbose", "0"] + (["-bucket", "262144"] if ngrams > 1 else []), threads)
    _, _, printed = run(["fasttext", "predict-prob", model + ".bin", test, "-1"], threads)
    ranked = []
    for line in printed.splitlines():
        words = line.split()
        # fastText adds 1e-5 to each probability before it takes the logarithm, and prints that one's exponential.
        ranked.append({w[len("__label__"):]: float(p) - 1e-5 for w, p in zip(words[0::2], words[1::2])})
    return (*score(ranked, test), seconds, processor)


def ours(program):
    def train_and_test(work, train, test, ngrams, setting, threads):
        estimator, transform, eta, epochs = setting
        model = f"{work}/model"
        given = [("--estimator", estimator), ("--eta", eta), ("--epochs", epochs)]
        seconds, processor, _ = run([program, "train", "--data", train, "--word-ngrams", str(ngrams),
                                     "--transform", transform, "--model", model, "--threads", str(threads), "--json"] +
                                    [word for key, value in given if value is not None for word in (key, str(value))],
                                    threads)
        _, _, printed = run([program, "predict", "--model", model, "--data", test, "--top", "65536", "--probabilities",
                          "--threads", str(threads)], threads)
        ranked = []
        for line in printed.splitlines():
            ranked.append({name: float(p) for name, _, p in (w.rpartition(":") for w in line.split("\t"))})
        return (*score(ranked, test), seconds, processor)
    return train_and_test


def choose(method, work, train, ngrams, settings, threads):
    """The setting of the least log-loss on the last tenth of the training lines."""
    if len(settings) == 1:
        return settings[0]
    with open(train) as file:
        lines = file.readlines()
    cut = len(lines) * 9 // 10
    for name, part in (("fit", lines[:cut]), ("check", lines[cut:])):
        with open(f"{work}/{name}.txt", "w") as out:
            out.writelines(part)
    found = []
    for setting in settings:
        result = method(work, f"{work}/fit.txt", f"{work}/check.txt", ngrams, setting, threads)
        found.append((result[1], setting))
        print(f"    {setting}: error {100 * result[0]:.2f} %, log-loss {result[1]:.4f}", file=sys.stderr, flush=True)
    return min(found, key=lambda one: one[0])[1]


def setting_of(names, **kinds):
    """An argparse type: a JSON list of those things, each of its kind."""
    def convert(text):
        try:
            values = json.loads(text)
        except ValueError as why:
            raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {why}")
        if not isinstance(values, list) or len(values) != len(names):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of {len(names)}; accepted is [{', '.join(names)}]")
        for name, value in zip(names, values):
            accepts, what = kinds[name]
            if not accepts(value):
                raise argparse.ArgumentTypeError(f"{name} is {json.dumps(value)}; accepted is {what}")
        return values
    return convert


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


RATE = (lambda v: is_number(v) and 0 < v < float("inf"), "a number above 0")
PASSES = (lambda v: isinstance(v, int) and not isinstance(v, bool) and v >= 1, "a whole number from 1 on")
WORD = (lambda v: isinstance(v, str) and v != "", "a name")


def or_null(kind):
    return (lambda v: v is None or kind[0](v), f"{kind[1]}, or null")


def main():
    parser = argparse.ArgumentParser(prog="bench/text.sh")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.environ.get("XSM_DATA") or
                        os.path.join(os.path.dirname(__file__), "../../../shared/data"))
    parser.add_argument("--fasttext", metavar="[LR,EPOCHS]",
                        type=setting_of(("lr", "epochs"), lr=RATE, epochs=PASSES),
                        help="JSON, such as [0.5,5]: no choice is made")
    parser.add_argument("--ours", metavar="[ESTIMATOR,TRANSFORM,ETA,EPOCHS]",
                        type=setting_of(("estimator", "transform", "eta", "epochs"), estimator=or_null(WORD),
                                        transform=WORD, eta=or_null(RATE), epochs=or_null(PASSES)),
                        help="JSON, such as [\"implicit\",\"unit\",null,5], null for what train chooses: nothing is compared")
    parser.add_argument("--only", choices=["20news", "brown"])
    options = parser.parse_args()
    grids = {
        "fasttext": (fasttext, [options.fasttext] if options.fasttext else
                     [[lr, epochs] for epochs in (5, 25) for lr in (0.1, 0.5, 1.0)]),
        "xsoftmax": (ours(options.program), [options.ours] if options.ours else
                     [[None, t, None, None] for t in ("unit", "tfidf,unit")]),
    }
    print(f"{'lines':8} {'program':10} {'setting':34} {'seconds':>8} {'processor':>10} {'error':>8} {'log-loss':>9}")
    for name, make in (("20news", newsgroups), ("brown", brown)):
        if options.only not in (None, name):
            continue
        train_lines, test_lines, ngrams = make(options.data)
        with tempfile.TemporaryDirectory() as work:
            for part, lines in (("train", train_lines), ("test", test_lines)):
                with open(f"{work}/{part}.txt", "w") as out:
                    out.writelines(lines)
            for program, (method, settings) in grids.items():
                setting = choose(method, work, f"{work}/train.txt", ngrams, settings, options.threads)
                error, loss, seconds, processor = method(work, f"{work}/train.txt", f"{work}/test.txt", ngrams, setting,
                                                         options.threads)
                print(f"{name:8} {program:10} {json.dumps(setting):34} {seconds:8.2f} {processor:10.2f} "
                      f"{100 * error:7.2f}% {loss:9.4f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(f"bench/text.sh: {why}")
