"""Very many classes against fastText's softmax: the same lines, hidden dimension and threads, one run.

Labels follow Zipf's law. A word of a line is one of its class's own ten (1 in 10), one of fifty that a hundred
classes share (6 in 10), or any, by Zipf's law. Every class has a line of its own beside those that are drawn, so
that both programs know all classes; test lines have the same mixture. The learning rates of both are chosen on a
problem of a tenth of the classes and lines, drawn with another seed, which is no part of the time that is told, and
divided by three while all classes make it diverge. Log-loss is exact, over all classes: fastText's from its sentence
vectors and output matrix, because what it prints as probabilities has 1e-5 added to each.
"""
import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy

WORDS, GROUP_WORDS, OWN_WORDS, LENGTH = 50000, 50, 10, 20


def zipf(n):
    p = 1 / numpy.arange(1, n + 1)
    return p / p.sum()


def generate(folder, classes, rows, tests, seed):
    """Writes train.txt, test.txt and held.txt; returns the log-loss of the labels' frequencies alone."""
    random = numpy.random.default_rng(seed)
    groups = max(1, classes // 100)
    labels, words = zipf(classes), zipf(WORDS)
    own = random.integers(0, WORDS, (classes, OWN_WORDS))
    common = random.integers(0, WORDS, (groups, GROUP_WORDS))
    group = random.integers(0, groups, classes)

    def write(name, y):
        size, kind = (len(y), LENGTH), random.random((len(y), LENGTH))
        text = numpy.where(kind < 0.1, own[y[:, None], random.integers(0, OWN_WORDS, size)],
                           numpy.where(kind < 0.7, common[group[y][:, None], random.integers(0, GROUP_WORDS, size)],
                                       random.choice(WORDS, size, p=words)))
        with open(f"{folder}/{name}.txt", "w") as out:
            for label, line in zip(y, text):
                out.write(f"__label__c{label} {' '.join(f'w{w}' for w in line)}\n")

    y = numpy.concatenate([numpy.arange(classes), random.choice(classes, rows, p=labels)])
    write("train", random.permutation(y))
    mixture = (labels * rows + 1) / (rows + classes)
    write("test", random.choice(classes, tests, p=mixture))
    write("held", random.choice(classes, tests, p=mixture))
    return -float(mixture @ numpy.log(mixture))


def run(command, threads):
    """Seconds of the clock and of processors, and what was printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"bench/many_classes.sh: {' '.join(command[:2])}: {done.stderr.strip()[-300:]}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def fasttext(folder, o, rate):
    model, test = f"{folder}/fasttext", f"{folder}/{o.judge}.txt"
    seconds, processor, _ = run(["fasttext", "supervised", "-input", f"{folder}/train.txt", "-output", model,
                                 "-dim", str(o.dimension), "-loss", "softmax", "-lr", str(rate),
                                 "-epoch", str(o.fasttext_epochs), "-thread", str(o.threads), "-verbose", "0"], o.threads)
    vocabulary = run(["fasttext", "dump", model + ".bin", "dict"], 1)[2].splitlines()[1:]
    labels = [line.split()[0] for line in vocabulary if line.endswith(" label")]
    places = {label: i for i, label in enumerate(labels)}
    lines = run(["fasttext", "dump", model + ".bin", "output"], 1)[2].splitlines()[1:]
    output = numpy.array([line.split() for line in lines], dtype=numpy.float32)
    with open(test) as file:
        text = file.read()
    y = numpy.array([places[line.split(None, 1)[0]] for line in text.splitlines()])
    printed = subprocess.run(["fasttext", "print-sentence-vectors", model + ".bin"], input=text, text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    hidden = numpy.array([line.split()[-o.dimension:] for line in printed.splitlines()], dtype=numpy.float32)
    wrong = loss = 0
    for start in range(0, len(y), 64):
        part = y[start:start + 64]
        scores = (hidden[start:start + 64] @ output.T).astype(numpy.float64)
        most = scores.max(axis=1)
        loss += (most + numpy.log(numpy.exp(scores - most[:, None]).sum(axis=1)) - scores[range(len(part)), part]).sum()
        wrong += (scores.argmax(axis=1) != part).sum()
    return seconds, processor, wrong / len(y), loss / len(y)


def ours(program, estimator, options, epochs):
    def train(folder, o, rate):
        model = f"{folder}/model"
        command = [program, "train", "--data", f"{folder}/train.txt", "--hidden", str(o.dimension), "--pool", "mean",
                   "--estimator", estimator, *options, "--eta", str(rate), "--epochs", str(epochs), "--model", model,
                   "--threads", str(o.threads), "--json"]
        seconds, processor, _ = run(command, o.threads)
        said = json.loads(run([program, "evaluate", "--model", model, "--data", f"{folder}/{o.judge}.txt", "--json"],
                              o.threads)[2])["test"]
        return seconds, processor, said["error"], said["log_loss"]
    return train


def attempt(name, method, folder, o, rate):
    """What the method returns; a log-loss of infinity where it diverged."""
    try:
        seconds, processor, error, loss = method(folder, o, rate)
    except SystemExit as why:
        print(f"    {why}", file=sys.stderr)
        seconds, processor, error, loss = math.nan, math.nan, 1.0, math.inf
    loss = loss if loss == loss else math.inf
    print(f"    {name}, rate {rate:g}: log-loss {loss:.4f}, {processor:.1f} s", file=sys.stderr, flush=True)
    return seconds, processor, error, loss


def choose(name, method, folder, o, rates):
    """The rate of the least log-loss on the small problem; walks on past the ends of the list while that helps."""
    found = {}

    def look(rate):
        found[rate] = attempt(name, method, folder, o, rate)[3]

    for rate in rates:
        look(rate)
    for factor in (3, 1 / 3):
        while True:
            best = min(found, key=found.get)
            following = float(f"{best * factor:.1g}")
            if any(abs(math.log(rate / following)) < 0.5 for rate in found) or len(found) > 12:
                break
            look(following)
    return min(found, key=found.get)


def main():
    parser = argparse.ArgumentParser(prog="bench/many_classes.sh", description="Very many classes, beside fastText.")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--classes", type=int, default=100000)
    parser.add_argument("--rows", type=int, help="lines beside one of each class; a fifth of the classes by default")
    parser.add_argument("--tests", type=int, default=1000)
    parser.add_argument("--dimension", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3, help="of xsoftmax, whose softmax also takes one alone")
    parser.add_argument("--only", help="methods whose names begin with it")
    parser.add_argument("--held", action="store_true",
                        help="judge by lines held back, which settings of the methods were chosen on, not by the test's")
    parser.add_argument("--fasttext-epochs", type=int, default=1)
    parser.add_argument("--fasttext-rate", type=float, help="no choice is made")
    parser.add_argument("--json", action="store_true", help="a line of JSON a method")
    o = parser.parse_args()
    if o.rows is None:
        o.rows = o.classes // 5
    o.judge = "held" if o.held else "test"
    if min(o.classes, o.rows, o.tests, o.dimension, o.threads, o.epochs, o.fasttext_epochs) < 1:
        parser.error("numbers are 1 or more")
    # Chosen on held-back lines (--held) of 100,000 classes, where SGD at its best rate is worse by 2 nats.
    sampled = ["--set", "sampler=frequency", "--set", "negatives=200", "--optimizer", "adagrad"]
    methods = [("fastText softmax", fasttext, [o.fasttext_rate] if o.fasttext_rate else [1, 3, 9], o.fasttext_epochs)]
    for epochs in sorted({1, o.epochs}):
        methods.append(("softmax, batches of 32", ours(o.program, "softmax", ["--batch", "32"], epochs), [3, 10, 30], epochs))
    methods.append(("sampled-softmax, adagrad", ours(o.program, "sampled-softmax", sampled, o.epochs),
                    [0.1, 0.3, 1], o.epochs))
    methods = [method for method in methods if method[0].startswith(o.only or "")]
    if not methods:
        parser.error(f"no method's name begins with '{o.only}'")
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as full:
        generate(small, max(10, o.classes // 10), max(10, o.rows // 10), o.tests, 2)
        prior = generate(full, o.classes, o.rows, o.tests, 1)
        rows = []
        for name, method, rates, epochs in methods:
            rate = choose(name, method, small, o, rates) if len(rates) > 1 else rates[0]
            seconds, processor, error, loss = attempt(name, method, full, o, rate)
            while loss == math.inf and rate > 1e-3:  # more classes than it was chosen on bear less
                rate = float(f"{rate / 3:.1g}")
                seconds, processor, error, loss = attempt(name, method, full, o, rate)
            rows.append({"method": name, "rate": rate, "epochs": epochs, "seconds": seconds, "processor": processor,
                         "error": error, "log_loss": loss})
    if o.json:
        for row in rows:
            print(json.dumps({"classes": o.classes, "rows": o.rows + o.classes, "threads": o.threads, **row}))
        return
    print(f"{o.classes} classes, {o.rows + o.classes} lines, dimension {o.dimension}, {o.threads} threads; label "
          f"frequencies alone: log-loss {prior:.4f}\n")
    print(f"{'':26}{'rate':>6}{'epochs':>8}{'seconds':>10}{'processor':>11}{'ratio':>8}{'error':>9}{'log-loss':>10}")
    for row in rows:
        print(f"{row['method']:26}{row['rate']:>6g}{row['epochs']:>8}{row['seconds']:>10.1f}{row['processor']:>11.1f}"
              f"{rows[0]['processor'] / row['processor']:>8.1f}{100 * row['error']:>8.2f}%{row['log_loss']:>10.4f}")


if __name__ == "__main__":
    main()
