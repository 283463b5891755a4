"""Rows with several labels: the library's one-vs-rest beside other people's; see bench/multilabel.sh.

Every method's settings are chosen on held-back training rows, or on those of a ..valid.txt[.gz] where there is one with
labels, by P@1 + P@3 + P@5, in time that is not told; then each trains once on all training rows. The default command of
`train` chooses for itself, in time that counts. Seconds are processor time, which other work on the machine does not add
to: of the process that reads, trains and saves, for LIBLINEAR and XR-Linear of their solvers alone. Of the last training
the table also has the size of the model's file, and milliseconds of processor time for a query on one thread, the reading of
its text included, but for XR-Linear.
"""
import argparse
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compare import find, mebibytes, number  # noqa: E402
from peers import Late, QUERIES, Skip, query_ms, run, run_xr_linear, shuffled, tokens, xc  # noqa: E402
from rows import Rows  # noqa: E402

DATA = ["bibtex", "delicious", "corel5k", "hmc-cellcycle-go", "kg-fb15k237", "debian-depends"]
KS = (1, 3, 5)
HELD_ROWS = 6000  # to choose by: as many folds as that takes, five at most; a fold has no more
A, B = 0.55, 1.5  # of the propensities

# Where the scores of all classes for all values are this many an epoch, other settings are tried, and by halves.
MANY = 2e9
OURS_FEW = [f"--estimator one-vs-all --transform {t} --eta {eta} --ridge {ridge} --schedule step:0.8 --epochs {epochs}"
            for t in ("unit", "tfidf,unit")
            for eta, ridge, epochs in ((0.3, 0, 12), (0.5, 0.3, 12), (0.5, 1, 12),
                                       (1, 0, 15), (1, 0.1, 15), (1, 1, 15))]
OURS_MANY = [f"--hidden 256 --estimator sampled-softmax --set negatives=1000 --set sampler=frequency --set shared=yes "
             f"--optimizer adagrad --batch 32 --transform {t} --eta {eta} --schedule step:0.6 --epochs 6"
             for t in ("unit", "tfidf,unit") for eta in (0.03, 0.1)]
OURS_MANY += [f"--estimator one-vs-all --transform {t} --eta {eta} --schedule step:0.7 --epochs 6"
              for t, eta in (("unit", 1), ("tfidf,unit", 1))]
LABEL_TREES = [f"--method label-tree --transform {t} --set trees={n}" for t in ("unit", "tfidf,unit") for n in (1, 3)]
FASTTEXT = [f"-loss ova -lr {lr} -epoch 25" for lr in (0.02, 0.1, 0.5)]
FASTTEXT_SOME = [f"-loss {loss} -lr {lr} -epoch 25" for loss in ("ns -neg 20", "hs") for lr in (0.1, 0.5)]
LIBLINEAR = [f"-s 7 -c {c} -e 0.1 -B 1" for c in (1, 10)]

# PEERS' figures, of another run on another machine: seconds with reading and writing, one thread.
PLT = {"bibtex": (1.3, (.632, .390, .285)), "delicious": (14.5, (.670, .599, .554))}
BR = {"bibtex": (2.1, (.634, .393, .287)), "delicious": (37.1, (.665, .599, .552))}


def propensity_weights(train, keep, classes):
    """1/p of Jain, Prabhu and Varma (2016) for every label number."""
    count = numpy.bincount([l for i in keep for l in set(train.labels[i])], minlength=classes)
    c = max(0.0, (numpy.log(len(keep)) - 1) * (B + 1) ** A)
    return 1 + c * (count + B) ** -A


class Tally:
    """Means of precision and nDCG at 1, 3 and 5, and PSP over what the labels themselves would get."""

    def __init__(self, weights):
        self.weights, self.rows = weights, 0
        self.p, self.ndcg = numpy.zeros(5), numpy.zeros(5)
        self.psp, self.psp_best = numpy.zeros(5), numpy.zeros(5)
        self.gain = 1 / numpy.log2(numpy.arange(5) + 2)

    def add(self, labels, ranked):
        truth, ranked = set(labels), ranked[:5]
        hit = numpy.array([k in truth for k in ranked] + [False] * (5 - len(ranked)), dtype=float)
        worth = hit * [self.weights[k] for k in list(ranked) + [0] * (5 - len(ranked))]
        best = sorted((self.weights[k] for k in truth), reverse=True)[:5]
        places = numpy.arange(1, 6)
        ideal = numpy.cumsum(self.gain * (places <= len(truth)))
        self.rows += 1
        self.p += numpy.cumsum(hit) / places
        self.ndcg += numpy.cumsum(hit * self.gain) / ideal
        self.psp += numpy.cumsum(worth) / places
        self.psp_best += numpy.cumsum(best + [0] * (5 - len(best))) / places

    def result(self):
        at = [k - 1 for k in KS]
        return {"precision": list(self.p[at] / self.rows), "ndcg": list(self.ndcg[at] / self.rows),
                "psp": list(self.psp[at] / self.psp_best[at])}


class Problem:
    """Training rows and rows to judge by, as files that each program reads."""

    def __init__(self, folder, train, keep, test, test_keep, limit, threads):
        self.folder, self.train, self.test, self.test_keep = folder, train, test, test_keep
        self.limit, self.threads, self.made = limit, threads, {}
        self.measures = False  # also the time of a query
        self.keep = shuffled(keep)  # files may be in the order of their labels, and fastText takes rows as they come
        self.classes = 1 + max(max(r.labels[i]) for r, k in ((train, keep), (test, test_keep)) for i in k)
        self.weights = propensity_weights(train, keep, self.classes)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, head, line):
        if name not in self.made:
            self.made[name] = self.path(name + "_train.txt"), self.path(name + "_test.txt")
            for path, rows, keep in zip(self.made[name], (self.train, self.test), (self.keep, self.test_keep)):
                with open(path, "w") as out:
                    out.write(head(rows, keep))
                    out.writelines(line(rows, i) for i in keep)
        return self.made[name]

    def tally(self):
        return Tally(self.weights)

    def command(self, command):
        """Runs a program; returns its processor seconds and what it printed."""
        return run(command, self.limit)


def fold(folder, train, keep, part, parts, limit, threads):
    held, rest = keep[part::parts], [i for j, i in enumerate(keep) if j % parts != part]
    return Problem(folder, train, rest, train, thinned(held), limit, threads)


def part_of(whole, step):
    """A problem with one training row in `step`."""
    folder = whole.path(f"part{step}")
    os.makedirs(folder, exist_ok=True)
    return Problem(folder, whole.train, whole.keep[::step], whole.test, whole.test_keep, whole.limit, whole.threads)


# -- the methods: (problem, settings) -> result -----------------------------------------------------------------------

def ours(program):
    def train_and_test(problem, settings):
        def head(count):
            return f"{count} {problem.train.features} {problem.classes}\n"
        train, test = problem.write("xc", lambda rows, keep: head(len(keep)), lambda rows, i: xc(rows, i, rows.labels[i]))
        model = problem.path("model.safetensors")
        # Two processes, so that the seconds of the first have no test rows in them.
        seconds, said = problem.command([program, "train", "--data", train, "--labels", "all", "--threads",
                                         str(problem.threads), "--model", model, "--no-evaluate", "--json",
                                         *settings.split()])
        _, found = problem.command([program, "evaluate", "--model", model, "--data", test, "--json"])
        size, query = os.path.getsize(model), None
        if problem.measures:
            lines = [xc(problem.test, i, problem.test.labels[i]) for i in problem.test_keep[:QUERIES]]
            query = query_ms(lambda path: [program, "predict", "--model", model, "--data", path, "--threads", "1"], model,
                             lines, head)
        os.unlink(model)
        test_metrics = json.loads(found)["test"]
        said = json.loads(said)
        chosen = {} if settings else {"settings": said["choice"]["why"][0].split(":")[0]}
        return {"seconds": seconds, "train_seconds": said["train_seconds"], "bytes": size, "query_ms": query, **chosen,
                **{name: [test_metrics[name][str(k)] for k in KS] for name in ("precision", "ndcg", "psp")}}
    return train_and_test


def fasttext(problem, settings):
    if not shutil.which("fasttext"):
        raise Skip("not installed")

    def line(rows, i):
        words = tokens(rows, i, "").split(" ", 1)[1]
        return " ".join(f"__label__{l}" for l in rows.labels[i]) + " " + words
    train, test = problem.write("fasttext", lambda rows, keep: "", line)
    model = problem.path("fasttext")
    seconds, _ = problem.command(["fasttext", "supervised", "-input", train, "-output", model, "-dim",
                                  "100", "-minCount", "1", "-thread", str(problem.threads), "-verbose", "0",
                                  *settings.split()])
    printed = subprocess.Popen(["fasttext", "predict", model + ".bin", test, "5"], stdout=subprocess.PIPE, text=True)
    tally = problem.tally()
    for words, i in zip(printed.stdout, problem.test_keep):
        tally.add(problem.test.labels[i], [int(w[len("__label__"):]) for w in words.split()])
    if printed.wait() or tally.rows != len(problem.test_keep):
        raise Skip("its predictions could not be read")
    query = None
    if problem.measures:
        with open(test) as lines:
            query = query_ms(lambda path: ["fasttext", "predict", model + ".bin", path, "5"], model, list(lines))
    return {"seconds": seconds, "bytes": os.path.getsize(model + ".bin"), "query_ms": query, **tally.result()}


def xr_linear(problem, settings):
    spent, best = run_xr_linear(problem.folder, problem.train, problem.keep, [problem.train.labels[i] for i in problem.keep],
                                problem.test, problem.test_keep, problem.limit, problem.threads, "tfidf" in settings)
    tally = problem.tally()
    for ranked, i in zip(best, problem.test_keep):
        tally.add(problem.test.labels[i], ranked)
    return {**spent, "seconds": spent["processor_seconds"], **tally.result()}


def liblinear(problem, settings):
    """A binary problem a class through LIBLINEAR's own Python binding; the rows are handed over once."""
    try:
        import liblinear as lib
    except ImportError:
        raise Skip("not installed") from None
    rows = problem.train
    x = [{index + 1: value for index, value in rows.pairs(i)} for i in problem.keep]
    of = {}
    for place, i in enumerate(problem.keep):
        for label in rows.labels[i]:
            of.setdefault(label, []).append(place)
    task = lib.problem([0.0] * len(x), x, 1)
    parameter = lib.parameter(settings + " -q")
    task.set_bias(parameter.bias)
    weight = numpy.zeros((rows.features + 1, problem.classes), dtype=numpy.float32)
    weight[-1] = -1e30  # what never occurs is never chosen
    target = numpy.ctypeslib.as_array(task.y, shape=(len(x),))
    seconds = 0.0
    for done, (label, places) in enumerate(sorted(of.items())):
        target[:] = -1
        target[places] = 1
        start = time.process_time()
        model = lib.liblinear.train(task, parameter)
        seconds += time.process_time() - start
        w = numpy.ctypeslib.as_array(model.contents.w, shape=(task.n,)) * (1 if model.contents.label[0] == 1 else -1)
        weight[:task.n - 1, label] = w[:-1]
        weight[-1, label] = w[-1]
        lib.liblinear.free_and_destroy_model(ctypes.byref(model))
        if seconds > problem.limit:
            raise Late(f"stopped after {seconds:.0f} s with {done + 1} of {len(of)} classes")
    tally = problem.tally()
    for i in problem.test_keep:
        a, b = problem.test.starts[i], problem.test.starts[i + 1]
        scores = problem.test.value[a:b] @ weight[problem.test.index[a:b]] + weight[-1]
        best = numpy.argpartition(-scores, min(5, len(scores) - 1))[:5]
        tally.add(problem.test.labels[i], [int(k) for k in best[numpy.argsort(-scores[best], kind="stable")]])
    return {"seconds": seconds, **tally.result()}


# -- choosing and telling ---------------------------------------------------------------------------------------------

def try_all(attempt, settings, folds, alike):
    """Settings and what they came to on the held-back rows, best first; that some fail does not matter, unless all are
    alike and one was too slow."""
    found, reason = [], "nothing was tried"
    for s in settings:
        try:
            found.append((numpy.mean([sum(attempt(f, s)["precision"]) for f in folds]), s))
        except Skip as failure:
            if alike and isinstance(failure, Late):
                raise
            reason = str(failure)
    if not found:
        raise Skip(reason)
    return [s for _, s in sorted(found, key=lambda pair: -pair[0])]


def choose(attempt, settings, folds, halve):
    """The settings that do best on the held-back rows. To halve is to try all on a part of the training rows, and the
    better half again on a part twice as large, until one is left."""
    if halve:
        while len(settings) > 1:
            ranked = try_all(attempt, settings, [part_of(f, len(settings)) for f in folds], False)
            settings = ranked[:min(len(ranked), (len(settings) + 1) // 2)]
        return settings[0]
    return try_all(attempt, settings, folds, True)[0] if len(settings) > 1 else settings[0]


def show(result, name, data, options):
    if options.json:
        print(json.dumps({"data": data, "method": name, **{k: result.get(k) for k in (
            "precision", "ndcg", "psp", "seconds", "train_seconds", "bytes", "query_ms", "settings", "skipped")}}),
              flush=True)
    elif "skipped" in result:
        print(f"{name:22} {result['skipped']}", flush=True)
    else:
        def cells(key):
            return " ".join(f"{v:.3f}"[1:] if v < 1 else "1.00" for v in result[key]) if key in result else "-"
        print(f"{name:22} {cells('precision'):>14} {cells('ndcg'):>14} {cells('psp'):>14} {result['seconds']:9.2f} "
              f"{mebibytes(result):>8} {number(result.get('query_ms'), 3):>8}  "
              f"{result.get('settings', '')}", flush=True)


def labelled(rows):
    return [i for i, l in enumerate(rows.labels) if l and rows.value[rows.starts[i]:rows.starts[i + 1]].any()]


def thinned(keep):
    return keep[::max(1, -(-len(keep) // HELD_ROWS))]


def compare(data, options):
    valid_path = None
    if data == "debian-depends":
        if not os.path.exists(os.path.join(options.folder, "train.txt")):
            subprocess.run(["sh", options.packages, options.folder, "--depends"], check=True, stdout=sys.stderr)
        train_path, test_path = (os.path.join(options.folder, f"{part}.txt") for part in ("train", "test"))
    else:
        train_path, test_path = find(data)
        valid_path = next(iter(glob.glob(os.path.join(os.path.dirname(train_path), "*valid.txt*"))), None)
    name = os.path.basename(os.path.normpath(data))
    train, test, valid = (path and Rows(path) for path in (train_path, test_path, valid_path))
    for rows in (train, test, valid):
        if rows:
            rows.unit()
    keep, test_keep, valid_keep = (labelled(rows) if rows else [] for rows in (train, test, valid))
    for path, rows in ((train_path, keep), (test_path, test_keep)):
        if not rows:
            sys.exit(f"multilabel: {path}: no row has a label and a feature")
    classes = len({l for i in keep for l in train.labels[i]})
    parts = 10
    many = len(train.value) * classes >= MANY
    count = 1 if many or valid_keep else min(5, -(-HELD_ROWS * parts // len(keep)))
    if not options.json:
        held = "validation rows" if valid_keep else f"{count} tenth{'s' if count > 1 else ''} of the training rows"
        print(f"\n{name}: {len(keep)} training rows, {len(test_keep)} test rows, {train.features} features, {classes} "
              f"classes, all labels; {options.threads} thread{'s' if options.threads > 1 else ''}; settings chosen on "
              f"{held}{', by halves' if many else ''}")
        print(f"{'method':22} {'P@1/3/5':>14} {'nDCG@1/3/5':>14} {'PSP@1/3/5':>14} {'seconds':>9} "
              f"{'MiB':>8} {'ms/query':>8}  settings",
              flush=True)
    methods = {"xsoftmax": (ours(options.program), OURS_MANY if many else OURS_FEW, count),
               "xsoftmax default": (ours(options.program), [""], 0),
               "xsoftmax label tree": (ours(options.program), LABEL_TREES[::2], 1),
               "xsoftmax 3 label trees": (ours(options.program), LABEL_TREES[1::2], 1),
               "fasttext ova": (fasttext, FASTTEXT, 1),
               **({"fasttext ns/hs": (fasttext, FASTTEXT_SOME, 1)} if many else {}),
               "liblinear one-vs-rest": (liblinear, LIBLINEAR, 1),
               "pecos xr-linear": (xr_linear, ["unit", "tfidf,unit"], 1)}
    with tempfile.TemporaryDirectory(prefix="xsoftmax-multilabel.") as folder:
        folds = []
        for part in range(count):
            place = os.path.join(folder, str(part))
            os.mkdir(place)
            folds.append(Problem(place, train, keep, valid, thinned(valid_keep), options.limit, options.threads)
                         if valid_keep else fold(place, train, keep, part, parts, options.limit, options.threads))
        whole = Problem(folder, train, keep, test, test_keep, options.limit, options.threads)
        whole.measures = True
        for method, (attempt, settings, most) in methods.items():
            if options.only and not any(method.startswith(w) for w in options.only):
                continue
            try:
                chosen = choose(attempt, settings, folds[:most], many and len(settings) > 3)
                result = {"settings": chosen, **attempt(whole, chosen)}
            except Skip as reason:
                result = {"skipped": str(reason)}
            show(result, method, name, options)
    for method, table in (("napkinXC PLT*", PLT), ("napkinXC BR*", BR)):
        if name in table and not options.only:
            show({"seconds": table[name][0], "precision": list(table[name][1])}, method, name, options)


def main():
    parser = argparse.ArgumentParser(prog="multilabel.sh", description="Rows with several labels: the library beside "
                                     "fastText's and LIBLINEAR's one-vs-rest. * = of another run, on another machine.")
    parser.add_argument("data", nargs="*", metavar="DATA", default=DATA)
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--packages", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--folder", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON a method, nothing else")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","),
                        help="methods whose names begin so: xsoftmax, fasttext, liblinear, pecos")
    parser.add_argument("--limit", type=int, default=300, help="processor seconds that a training run may take (300)")
    options = parser.parse_args()
    for data in options.data:
        compare(data, options)


if __name__ == "__main__":
    main()
