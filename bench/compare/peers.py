"""The programs of other people, each trained on the same rows with one label a row.

A peer is a function (work) -> dict with "seconds" (training alone), "processor_seconds" (of the program that trains),
"train" and "test" (see rows.Tally.result), and where it is known "bytes" of the model's file and "query_ms". It raises Skip
with the reason when it cannot take the problem, and Late when it takes too long.
"""
import os
import random
import resource
import signal
import subprocess
import sys
import time

from rows import Tally

# Numbers that a program may have to print or hold for a log-loss; beyond that it goes without.
SCORES_MOST = 60_000_000


class Skip(Exception):
    pass


class Late(Skip):
    """It took longer than it may."""


def processor_seconds():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def run(command, limit, **more):
    """Runs a program that may take so many processor seconds, which other work on the machine does not add to; returns
    how many it took and what it printed."""
    before = processor_seconds()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)), **more)
    seconds = processor_seconds() - before
    # The kernel's count, by which it sends SIGXCPU, is not that of getrusage().
    if done.returncode == -signal.SIGXCPU or (done.returncode < 0 and seconds > 0.9 * limit):
        raise Late(f"stopped after {limit} s of processor time")
    if done.returncode:
        raise Skip(f"it failed: {(done.stderr.strip().splitlines() or ['status %d' % done.returncode])[-1]}")
    return seconds, done.stdout


def shuffled(rows):
    """The same, in an order that is always the same."""
    return random.Random(1).sample(rows, len(rows))


class Work:
    """A data set as the peers want it, converted once and kept in a folder."""

    def __init__(self, folder, train, test, limit, threads):
        self.folder, self.train, self.test, self.limit, self.threads = folder, train, test, limit, threads
        # Files may be in the order of their labels, and fastText takes rows as they come.
        self.keep, self.labels = map(list, zip(*shuffled(list(zip(*train.first_labels())))))
        self.test_keep, self.test_labels = test.first_labels()
        self.known = set(self.labels)
        self.made = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, line):
        """Writes the kept rows of both parts by `line(rows, i, label)`; returns the two paths."""
        if name not in self.made:
            paths = self.path(name + "_train"), self.path(name + "_test")
            for path, rows, keep, labels in ((paths[0], self.train, self.keep, self.labels),
                                             (paths[1], self.test, self.test_keep, self.test_labels)):
                with open(path, "w") as out:
                    for i, label in zip(keep, labels):
                        out.write(line(rows, i, label))
            self.made[name] = paths
        return self.made[name]

    def timed(self, command):
        """Seconds of a training program by the clock, and of processor time, as a result has them."""
        start = time.monotonic()
        spent, _ = run(command, self.limit, env={**os.environ, "OMP_NUM_THREADS": str(self.threads)})
        return {"seconds": time.monotonic() - start, "processor_seconds": spent}


def xc(rows, i, labels):
    """A row of Extreme Classification text."""
    values = " ".join(f"{index}:{value:.9g}" for index, value in rows.pairs(i, raw=True))
    return f"{','.join(map(str, labels))} {values}\n"


QUERIES = 1000  # rows that the time of a query is measured on


def query_ms(command, stem, lines, head=lambda count: ""):
    """Processor milliseconds of a query on one thread, reading its text included: what a program takes for many rows,
    less what it takes for one, which is mostly loading. `command` makes the program's command of a file's name."""
    lines = lines[:QUERIES]
    if len(lines) < 2:
        return None
    seconds = []
    for count in (1, len(lines)):
        with open(f"{stem}.queries", "w") as out:
            out.write(head(count))
            out.writelines(lines[:count])
        seconds.append(run(command(f"{stem}.queries"), 600)[0])
    return 1e3 * max(0, seconds[1] - seconds[0]) / (len(lines) - 1)


# -- fastText ---------------------------------------------------------------------------------------------------------

def tokens(rows, i, label):
    """fastText knows words, not values: small counts are repeated, anything else is there or not."""
    words = []
    for index, value in rows.pairs(i, raw=True):
        times = int(value) if value == int(value) and 1 <= value <= 20 else 1
        words += [f"f{index}"] * (times if value else 0)
    return f"__label__{label} {' '.join(words)}\n"


def fasttext(loss):
    def train_and_test(work):
        train, test = work.write("fasttext", tokens)
        model = work.path("fasttext-" + loss)
        spent = work.timed(["fasttext", "supervised", "-input", train, "-output", model, "-loss", loss, "-thread",
                              str(work.threads), "-dim", "100", "-epoch", "25", "-lr", "0.5", "-minCount", "1",
                              "-verbose", "0"])
        # ns prints sigmoids that do not add up to one, and hs leaves out what is below 1e-5.
        whole = loss == "softmax" and len(work.known) * len(work.test_keep) <= SCORES_MOST
        most = len(work.known) if whole else 5
        printed = subprocess.Popen(["fasttext", "predict-prob", model + ".bin", test, str(most)],
                                   stdout=subprocess.PIPE, text=True)
        tally = Tally(work.known)
        for line, truth in zip(printed.stdout, work.test_labels):
            words = line.split()
            ranked = [int(w[len("__label__"):]) for w in words[0::2]]
            probability = dict(zip(ranked, map(float, words[1::2]))).get(truth, 0.0) if whole else None
            tally.add(truth, ranked, probability)
        if printed.wait() or tally.rows != len(work.test_labels):
            raise Skip("its predictions could not be read")
        size = os.path.getsize(model + ".bin")
        with open(test) as lines:
            spent["query_ms"] = query_ms(lambda path: ["fasttext", "predict", model + ".bin", path, "5"], model, list(lines))
        for end in (".bin", ".vec"):
            if os.path.exists(model + end):
                os.unlink(model + end)
        return {**spent, "bytes": size, "train": None, "test": tally.result()}
    return train_and_test


# -- LIBLINEAR --------------------------------------------------------------------------------------------------------

def svmlight(rows, i, label):
    return f"{label} {' '.join(f'{index + 1}:{value:.9g}' for index, value in sorted(rows.pairs(i)) if value)}\n"


def liblinear(solver, cost):
    def train_and_test(work):
        train, test = work.write("liblinear", svmlight)
        model, out = work.path("liblinear-model"), work.path("liblinear-out")
        spent = work.timed(["liblinear-train", "-q", "-s", solver, "-c", cost, train, model])
        probabilities = solver == "0" and len(work.known) * len(work.test_keep) <= SCORES_MOST
        subprocess.run(["liblinear-predict", "-b", "1" if probabilities else "0", test, model, out],
                       stdout=subprocess.DEVNULL, check=True)
        tally = Tally(work.known)
        with open(out) as lines:
            order = [int(l) for l in next(lines).split()[1:]] if probabilities else None
            for line, truth in zip(lines, work.test_labels):
                words = line.split()
                if probabilities:
                    values = [float(w) for w in words[1:]]
                    best = sorted(range(len(values)), key=values.__getitem__, reverse=True)[:5]
                    where = order.index(truth) if truth in work.known else None
                    tally.add(truth, [order[k] for k in best], None if where is None else values[where])
                else:
                    tally.add(truth, [int(words[0])], None)
        result = tally.result()
        if not probabilities:
            result["p5"] = None
        size = os.path.getsize(model)
        with open(test) as lines:
            spent["query_ms"] = query_ms(lambda path: ["liblinear-predict", path, model, out], model, list(lines))
        os.unlink(model)
        return {**spent, "bytes": size, "train": None, "test": result}
    return train_and_test


# -- scikit-learn -----------------------------------------------------------------------------------------------------

LEARN = r"""
import json, sys, time
sys.path.insert(0, sys.argv[1])
import numpy
from sklearn.linear_model import LogisticRegression
from sklearn.utils.extmath import row_norms
data = numpy.load(sys.argv[2], allow_pickle=False)
from scipy import sparse
def part(name):
    return sparse.csr_matrix((data[name + "_value"], data[name + "_index"], data[name + "_starts"]),
                             shape=(len(data[name + "_starts"]) - 1, int(data["features"])))
x, y, test = part("train"), data["train_labels"], part("test")
learner = LogisticRegression(multi_class="multinomial", solver="lbfgs", C=float(sys.argv[3]), max_iter=200)
start = time.monotonic()
learner.fit(x, y)
seconds = time.monotonic() - start
numpy.savez(sys.argv[4], seconds=seconds, classes=learner.classes_, train=learner.predict_proba(x),
            test=learner.predict_proba(test))
"""


def scikit_learn(cost):
    def train_and_test(work):
        import numpy
        classes, rows = len(work.known), len(work.keep) + len(work.test_keep)
        if classes * work.train.features > 30_000_000 or classes * rows > SCORES_MOST:
            raise Skip(f"{classes} classes are too many for its dense gradients")
        data, out = work.path("rows.npz"), work.path("learned.npz")
        x, t = work.train.matrix(work.keep), work.test.matrix(work.test_keep)
        numpy.savez(data, features=work.train.features, train_value=x.data, train_index=x.indices,
                    train_starts=x.indptr, test_value=t.data, test_index=t.indices, test_starts=t.indptr,
                    train_labels=numpy.array(work.labels))
        script = work.path("learn.py")
        with open(script, "w") as text:
            text.write(LEARN)
        spent = work.timed([sys.executable, script, os.path.dirname(__file__), data, str(cost), out])
        learned = numpy.load(out)
        place = {int(k): j for j, k in enumerate(learned["classes"])}
        results = {}
        for name, labels in (("train", work.labels), ("test", work.test_labels)):
            tally = Tally(work.known)
            for p, truth in zip(learned[name], labels):
                best = numpy.argsort(-p)[:5]
                tally.add(truth, [int(learned["classes"][k]) for k in best],
                          float(p[place[truth]]) if truth in place else None)
            results[name] = tally.result()
        return {**spent, "seconds": float(learned["seconds"]), **results}
    return train_and_test


# -- XR-Linear --------------------------------------------------------------------------------------------------------

def run_xr_linear(folder, train, keep, labels, test, test_keep, limit, threads, tfidf):
    """Trains on rows of `train` with a list of labels each; what xr_linear.py stores, for rows of `test`."""
    import numpy
    if not os.environ.get("PECOS"):
        raise Skip("$PECOS names no checkout")
    x, t = train.matrix(keep, raw=True), test.matrix(test_keep, raw=True)
    index = [l for some in labels for l in some]
    rows, out = os.path.join(folder, "rows.npz"), os.path.join(folder, "xr-linear.npz")
    numpy.savez(rows, features=train.features, train_value=x.data, train_index=x.indices, train_starts=x.indptr,
                test_value=t.data, test_index=t.indices, test_starts=t.indptr, label_index=index,
                label_value=numpy.ones(len(index)), label_starts=numpy.cumsum([0] + [len(some) for some in labels]))
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "xr_linear.py")
    run([sys.executable, script, rows, out, str(threads)] + (["tfidf"] if tfidf else []), limit,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    found = numpy.load(out)
    return ({name: float(found[name]) for name in ("seconds", "processor_seconds", "query_ms")}
            | {"bytes": int(found["bytes"])}), [[int(l) for l in row if l >= 0] for row in found["best"]]


def xr_linear(work):
    spent, best = run_xr_linear(work.folder, work.train, work.keep, [[l] for l in work.labels], work.test, work.test_keep,
                                work.limit, work.threads, False)
    tally = Tally(work.known)
    for ranked, truth in zip(best, work.test_labels):
        tally.add(truth, ranked, None)
    return {**spent, "train": None, "test": tally.result()}


PEERS = {
    "fasttext/softmax": fasttext("softmax"),
    "fasttext/hs": fasttext("hs"),
    "fasttext/ns": fasttext("ns"),
    "liblinear/logistic": liblinear("0", "10"),
    "liblinear/crammer-singer": liblinear("4", "1"),
    "scikit-learn/softmax": scikit_learn(10),
    "pecos/xr-linear": xr_linear,
}
