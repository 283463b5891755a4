"""Recommendation and link prediction: linear and embedding models, and fastText, on the same rows in one run.

The first label of each row counts; kg-fb15k237 is then trained with all labels and judged by filtered ranks. Seconds are
those of a whole training program, reading included, on the wall and of the processors; what is printed after them is of
rows that training never saw. The embedding models' settings were chosen on held-back rows (see held()), never on test
rows; the linear models' are not tuned.
"""
import argparse
import gzip
import json
import math
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import peers
from rows import Rows

ADAGRAD = ["--optimizer", "adagrad", "--set", "sampler=frequency"]
# Of each data set, the models by name with their flags. The embedding models' were chosen on kg's validation rows, and on
# the last training row of each user of s3rec; the linear ones score every class.
SETTINGS = {
    "kg-fb15k237": {
        "linear": ["--estimator", "softmax", "--transform", "unit", "--epochs", "1", "--eta", "3"],
        "hidden": ["--hidden", "100", "--estimator", "nce", *ADAGRAD, "--set", "negatives=20", "--epochs", "5", "--eta",
                   "0.07"],
    },
    "s3rec-beauty": {
        "linear": ["--estimator", "softmax", "--transform", "unit", "--epochs", "5", "--eta", "2", "--schedule",
                   "step:0.7"],
        # What `train` alone chooses.
        "hidden": ["--hidden", "256", "--estimator", "sampled-softmax", *ADAGRAD, "--set", "negatives=1000", "--set",
                   "shared=yes", "--set", "optimizer.initial=0.004", "--batch", "128", "--transform", "unit", "--epochs", "4",
                   "--eta", "0.05", "--schedule", "step:0.562"],
    },
}
ALL_LABELS = ["--hidden", "100", "--estimator", "sampled-softmax", *ADAGRAD, "--set", "negatives=50", "--epochs", "10", "--eta",
              "0.07"]
# --published: nDCG@10 and recall@10 of TIGER and of SASRec beside it, as Rajput et al. (NeurIPS 2023, table 1) print them.
PUBLISHED = {"s3rec-beauty": ((.0384, .0648), (.0318, .0605)), "s3rec-toys": ((.0432, .0712), (.0374, .0675))}
# --sessions: P@20 and MRR@20 of SR-GNN (Wu et al., AAAI 2019) and GCE-GNN (Wang et al., SIGIR 2020), as table 2 of the latter
# prints them.
SESSIONS = {"Tmall": ((.2757, .1372), (.3342, .1542)), "diginetica": ((.5073, .1759), (.5422, .1904)),
            "Nowplaying": ((.1887, .0747), (.2237, .0840))}


def lines_of(path):
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path)) as file:
        header, *lines = file.read().splitlines()
    return header.split()[1:], lines


def write(path, shape, lines):
    with open(path, "w") as out:
        out.write(f"{len(lines)} {' '.join(shape)}\n")
        out.writelines(line + "\n" for line in lines)


def held(folder, name, work):
    """Rows to train on and to judge by, taken from the training rows (kg: and the validation rows of the set)."""
    source = f"{folder}/{name}/{name}"
    shape, lines = lines_of(source + "_train.txt.gz")
    if name == "kg-fb15k237":
        kept, judged = lines, lines_of(source + "_valid.txt.gz")[1]
    else:
        kept, judged = last_of_users(lines)
    write(f"{work}/train.txt", shape, kept)
    write(f"{work}/test.txt", shape, judged)


def last_of_users(lines):
    """The others and the last row of each user. Rows of a user follow each other; the first has one earlier item, which is two
    features."""
    last = [i + 1 == len(lines) or len(lines[i + 1].split()) == 3 for i in range(len(lines))]
    return [[line for line, is_last in zip(lines, last) if is_last == wanted] for wanted in (False, True)]


def published(options, name, work):
    """As sequential recommendation is measured: of each user the last item is tested, the one before trains nothing (it would
    be for tuning), and all items are ranked. The command chooses everything."""
    source = f"{options.data}/{name}/{name}"
    shape, lines = lines_of(source + "_train.txt.gz")
    write(f"{work}/train.txt", shape, last_of_users(lines)[0])
    write(f"{work}/test.txt", *lines_of(source + "_test.txt.gz"))
    seconds, _, model = ours(options, work, "all", [])
    test = evaluate(options, work, model)["test"]
    tell(options, name, "xsoftmax train", {**seconds, "ndcg10": test["ndcg"]["10"], "recall10": test["recall"]["10"]})
    for program, (gain, recall) in zip(("TIGER, published", "SASRec, published"), PUBLISHED[name]):
        tell(options, name, program, {"ndcg10": gain, "recall10": recall})


class Lists(pickle.Unpickler):
    """Numbers and lists alone, as the sets of sessions are published."""
    def find_class(self, module, name):
        raise Failed(f"a pickle of {module}.{name}, where lists of numbers are expected")


def click(items, label, count):
    """A row of the items before a click, whose weights decay with age, and the last one alone, as in s3rec-beauty."""
    weights = {}
    for age, item in enumerate(reversed(items)):
        weights[item] = weights.get(item, 0) + .8 ** age
    return " ".join([str(label), *(f"{item}:{weights[item]:.4g}" for item in sorted(weights)), f"{count + items[-1]}:1"])


def sessions(options, folder, work):
    """Each click of a training session but its first is a row. The command chooses everything, by hits@20."""
    parts = []
    for name in ("all_train_seq.txt", "test.txt"):
        with open(os.path.join(folder, name), "rb") as file:
            parts.append(Lists(file).load())
    clicks, (earlier, labels) = parts
    count = 1 + max(map(max, clicks))
    write(f"{work}/train.txt", (str(2 * count), str(count)),
          [click(some[:i], some[i], count) for some in clicks for i in range(1, len(some))])
    write(f"{work}/test.txt", (str(2 * count), str(count)),
          [click(some, label, count) for some, label in zip(earlier, labels)])
    seconds, _, model = ours(options, work, "all", ["--measure", "hits@20"])
    _, printed = timed([options.program, "predict", "--model", model, "--data", f"{work}/test.txt", "--top", "20",
                        "--threads", str(options.threads)])
    ranked = [[word.partition(":")[0] for word in line.split()] for line in printed.splitlines()]
    places = [best.index(str(label)) if str(label) in best else math.inf for best, label in zip(ranked, labels, strict=True)]
    data = os.path.basename(os.path.normpath(folder))
    tell(options, data, "xsoftmax train", {**seconds, "p20": sum(place < 20 for place in places) / len(places),
                                           "mrr20": sum(1 / (place + 1) for place in places) / len(places)})
    for program, (hits, mrr) in zip(("SR-GNN, published", "GCE-GNN, published"), SESSIONS.get(data, ())):
        tell(options, data, program, {"p20": hits, "mrr20": mrr})


def unpacked(folder, name, work):
    for part in ("train", "test"):
        write(f"{work}/{part}.txt", *lines_of(f"{folder}/{name}/{name}_{part}.txt.gz"))


class Failed(Exception):
    pass


def timed(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return {"wall": wall, "processor": after.ru_utime - before.ru_utime}, done.stdout


def ours(options, work, labels, flags):
    model = f"{work}/model"
    seconds, printed = timed([options.program, "train", "--data", f"{work}/train.txt", "--labels", labels, "--model", model,
                              "--threads", str(options.threads), "--json", *flags])
    return seconds, json.loads(printed)["train"]["log_loss"], model


def evaluate(options, work, model, *more):
    _, printed = timed([options.program, "evaluate", "--model", model, "--data", f"{work}/test.txt", "--threads",
                        str(options.threads), "--json", *more])
    return json.loads(printed)


def one_label(options, work, flags):
    seconds, train_loss, model = ours(options, work, "first", flags)
    test = evaluate(options, work, model)["test"]
    return {**seconds, "p1": test["precision"]["1"], "p5": test["precision"]["5"], "ndcg10": test["ndcg"]["10"],
            "log_loss": test["log_loss"], "train_log_loss": train_loss}


def fasttext(options, work, loss):
    """As bench/compare.sh calls it: vectors of 100, 25 epochs, rate 0.5, which its guide advises."""
    parts = peers.Work(work, Rows(f"{work}/train.txt"), Rows(f"{work}/test.txt"), None, options.threads)
    train, test = parts.write("fasttext", peers.tokens)
    model = f"{work}/fasttext"
    seconds, _ = timed(["fasttext", "supervised", "-input", train, "-output", model, "-loss", loss, "-thread",
                        str(options.threads), "-dim", "100", "-epoch", "25", "-lr", "0.5", "-minCount", "1", "-verbose",
                        "0"])
    _, printed = timed(["fasttext", "predict", model + ".bin", test, "10"])
    first = fifth = gain = count = 0
    for line, truth in zip(printed.splitlines(), parts.test_labels, strict=True):
        ranked = [int(word[len("__label__"):]) for word in line.split()]
        count += 1
        if truth in ranked:
            place = ranked.index(truth)
            first += place == 0
            fifth += place < 5
            gain += 1 / math.log2(place + 2)
    return {**seconds, "p1": first / count, "p5": fifth / count / 5, "ndcg10": gain / count}


def ranks(options, folder, work):
    name = "kg-fb15k237"
    seconds, _, model = ours(options, work, "all", ALL_LABELS)
    known = [flag for part in ("train", "valid", "test")
             for flag in ("--known", f"{folder}/{name}/{name}_{part}.txt.gz")]
    of = evaluate(options, work, model, "--labels", "all", "--ranks", *known)["ranks"]
    return {**seconds, "mrr": of["mrr"], "hits1": of["hits"]["1"], "hits3": of["hits"]["3"], "hits10": of["hits"]["10"]}


COLUMNS = {"wall": "wall s", "processor": "proc. s", "p1": "P@1", "p5": "P@5", "ndcg10": "nDCG@10",
           "recall10": "recall@10", "p20": "P@20", "mrr20": "MRR@20", "mrr": "MRR", "hits1": "hits@1", "hits3": "@3",
           "hits10": "@10"}


def tell(options, data, model, result):
    if options.json:
        print(json.dumps({"data": data, "model": model, **result}), flush=True)
        return
    figures = [f"{COLUMNS[key]} {value:.{1 if key in ('wall', 'processor') else 4}f}" for key, value in result.items()
               if key in COLUMNS]
    print(f"{data:13} {model:24} {', '.join(figures)}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/hidden.sh")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument("--held", action="store_true", help="judge by held-back rows instead of the test rows")
    parser.add_argument("--published", action="store_true", help="sequential recommendation as papers measure it")
    parser.add_argument("--sessions", nargs="+", metavar="FOLDER", help="the next click of sessions")
    parser.add_argument("--only", help="models with commas between them: linear, hidden, fasttext-ns, fasttext-hs, ranks")
    parser.add_argument("--sets", help=f"data sets with commas between them: {', '.join(SETTINGS)}")
    parser.add_argument("--data", default=os.environ.get("XSM_DATA") or
                        os.path.join(os.path.dirname(__file__), "../../../shared/data"))
    options = parser.parse_args()
    names = ["linear", "hidden", "fasttext-ns", "fasttext-hs", "ranks"]
    only = options.only.split(",") if options.only else names
    for name in only:
        if name not in names:
            parser.error(f"--only: '{name}' is none of {', '.join(names)}")
    known = PUBLISHED if options.published else SETTINGS
    sets = options.sets.split(",") if options.sets else list(known)
    for folder in options.sessions or []:
        with tempfile.TemporaryDirectory() as work:
            sessions(options, folder, work)
    if options.sessions:
        return
    for data in sets:
        if data not in known:
            parser.error(f"--sets: '{data}' is none of {', '.join(known)}")
    for data in sets:
        if not os.path.isdir(f"{options.data}/{data}"):
            print(f"{data}: not in {options.data}, left out", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as work:
            if options.published:
                published(options, data, work)
                continue
            models = SETTINGS[data]
            (held if options.held else unpacked)(options.data, data, work)
            for name, flags in models.items():
                if name in only:
                    tell(options, data, name, one_label(options, work, flags))
            for loss in ("ns", "hs"):
                if f"fasttext-{loss}" in only and shutil.which("fasttext"):
                    tell(options, data, f"fasttext-{loss}", fasttext(options, work, loss))
            if data == "kg-fb15k237" and "ranks" in only:
                tell(options, data, "hidden, all labels", ranks(options, options.data, work))


if __name__ == "__main__":
    try:
        main()
    except Failed as why:
        sys.exit(f"bench/hidden.sh: {why}")
