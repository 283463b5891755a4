#!/usr/bin/env python3
"""The sampler `midx` beside others: embedding models by sampled-softmax, loss and nDCG against seconds of the processor.

  python3 bench/samplers.py BUILD [DATA...] [--epochs N] [--seeds N]

DATA: sets of $XSM_DATA or ../shared/data, each row's first label; without, five sets. Seconds are those of runs on one thread
without evaluations. Prints for each sampler the medians of seeds (`tree`, which takes long to fit: the first) after the last
epoch, and after the last epoch that ends within the seconds that all epochs take by frequency. Then bench_samplers says, for
models of the first three sets by frequency, how near each sampler is to the softmax.
"""
import argparse
import csv
import os
import resource
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETS = ["codex", "kg-fb15k237", "kg-nell-995", "s3rec-beauty", "s3rec-toys"]
SAMPLERS = {"frequency": "negatives=20 sampler=frequency", "frequency, 300 shared": "negatives=300 shared=yes sampler=frequency",
            "uniform": "negatives=20 sampler=uniform", "tree": "negatives=20 sampler=tree",
            "label-tree": "negatives=20 sampler=label-tree", "midx, M = 16": "negatives=20 sampler=midx sampler.words=16",
            "midx, M = 64": "negatives=20 sampler=midx sampler.words=64"}


def seconds(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def trial(arguments, paths, sampler, folder):
    """Seconds before and for an epoch, and of each epoch the medians of loss and nDCG."""
    command = [arguments.build + "/examples/xsoftmax", "train", "--threads", "1", "--data", paths[0], "--labels", "first",
               "--transform", "unit", "--hidden", "128", "--estimator", "sampled-softmax", "--optimizer", "adagrad",
               "--set", "optimizer.initial=0.004", "--eta", "0.05", "--batch", "64"]
    command += [word for setting in SAMPLERS[sampler].split() for word in ("--set", setting)]
    spent = [seconds(command + ["--epochs", str(epochs), "--no-evaluate", "--model", f"{folder}/{sampler}.model"])
             for epochs in (1, arguments.epochs)]
    epoch = (spent[1] - spent[0]) / (arguments.epochs - 1)
    runs = []
    for seed in range(1, (1 if sampler == "tree" else arguments.seeds) + 1):
        history = folder + "/history.csv"
        seconds(command + ["--epochs", str(arguments.epochs), "--seed", str(seed), "--test", paths[1], "--history", history,
                           "--evaluate-train", "no", "--history-measures", "ndcg", "--model", folder + "/model"])
        with open(history, encoding="utf-8") as file:
            runs.append([(float(row["test_log_loss"]), float(row["ndcg_5"])) for row in csv.DictReader(file)])
    return spent[0] - epoch, epoch, [[statistics.median(at) for at in zip(*rows)] for rows in zip(*runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("data", nargs="*", default=SETS)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for number, name in enumerate(arguments.data):
        folder = os.path.join(os.environ.get("XSM_DATA", ROOT + "/../shared/data"), name)
        paths = [f"{folder}/{name}_{part}.txt.gz" for part in ("train", "test")]
        with tempfile.TemporaryDirectory() as work:
            print(f"\n| {name} | log-loss, nDCG@5 | s | in as many s as frequency |\n|---|---|---|---|", flush=True)
            budget = None
            for sampler in SAMPLERS:
                start, epoch, quality = trial(arguments, paths, sampler, work)
                budget = budget or start + arguments.epochs * epoch
                within = min(arguments.epochs, int((budget - start) / epoch + 1e-9))
                figures = [f"{loss:.3f}, {gain:.4f}" for loss, gain in quality]
                print(f"| {sampler} | {figures[-1]} | {start + arguments.epochs * epoch:.1f} | "
                      f"{figures[within - 1] if within > 0 else 'none'} |", flush=True)
            if number < 3:
                print(flush=True)
                subprocess.run([arguments.build + "/bench/bench_samplers", work + "/frequency.model", *paths], check=True)


if __name__ == "__main__":
    main()
