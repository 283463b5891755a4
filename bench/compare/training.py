"""The same training by this library and by PyTorch; see bench/compare_torch.sh.

Each run is a process of its own, which prints a line of JSON an epoch: processor seconds of the training so far, and what NumPy
makes of its vectors of the test rows and of the classes.
"""
import argparse
import csv
import ctypes
import json
import pathlib
import resource
import subprocess
import sys
import time

import numpy

from rows import Rows

BATCH, NEGATIVES, HELD = 128, 1000, 10
METHODS, PROGRAMS = ["softmax", "sampled-softmax"], ["xsoftmax", "PyTorch"]
FIELDS = ["epoch", "seconds", "log_loss", "precision_1"]


class Part:
    """Rows with a label, the first of each: values in CSR form."""

    def __init__(self, rows, which=lambda i: True):
        keep, labels = rows.first_labels()
        keep, labels = zip(*[(i, label) for n, (i, label) in enumerate(zip(keep, labels)) if which(n)])
        part = [slice(rows.starts[i], rows.starts[i + 1]) for i in keep]
        self.starts = numpy.cumsum([0] + [p.stop - p.start for p in part]).astype(numpy.uint64)
        self.index = numpy.concatenate([rows.index[p] for p in part]).astype(numpy.uint32)
        self.value = numpy.concatenate([rows.value[p] for p in part]).astype(numpy.float32)
        self.label = numpy.array(labels, numpy.uint32)


def read(path, held):
    """Training and test rows, features and classes. With `held` the rows to test are those of the set's valid.txt, or every
    tenth training row."""
    train, test = (Rows(str(path) % part) for part in ("train", "test"))
    classes = 1 + max(max(labels) for rows in (train, test) for labels in rows.labels if labels)
    valid = pathlib.Path(str(path) % "valid")
    if not held:
        parts = Part(train), Part(test)
    elif valid.exists():
        parts = Part(train), Part(Rows(str(valid)))
    else:
        parts = Part(train, lambda i: i % HELD), Part(train, lambda i: not i % HELD)
    return *parts, train.features, max([classes] + [1 + int(part.label.max()) for part in parts])


def evaluate(test, known, vectors, weight, bias):
    """Log-loss of the test rows whose class was seen, and the share of all whose class is first."""
    loss, right = 0.0, 0
    for first in range(0, len(test.label), 500):
        y = test.label[first:first + 500]
        scores = vectors[first:first + 500] @ weight.T + bias
        top = scores.max(1, keepdims=True)
        log_sum = top[:, 0] + numpy.log(numpy.exp(scores - top).sum(1, dtype=numpy.float64))
        seen = known[y]
        loss += (log_sum - scores[numpy.arange(len(y)), y])[seen].sum()
        right += int((scores.argmax(1) == y)[seen].sum())
    return loss / known[test.label].sum(), right / len(test.label)


class Report:
    def __init__(self, test, known):
        self.test, self.known, self.epoch, self.seconds = test, known, 0, 0.0
        self.start = time.process_time()

    def __call__(self, learned):
        """At the end of an epoch, with the vectors of the test rows, and the weights and biases of the classes."""
        self.seconds += time.process_time() - self.start
        self.epoch += 1
        figures = self.epoch, self.seconds, *evaluate(self.test, self.known, *learned())
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({**dict(zip(FIELDS, map(float, figures))), "mebibytes": most / 1024}), flush=True)
        self.start = time.process_time()


# -- the two ----------------------------------------------------------------------------------------------------------

def by_xsoftmax(given, train, test, features, classes, report):
    import xsoftmax
    xsm = xsoftmax.library()

    def pointer(array):
        return array.ctypes.data_as(ctypes.POINTER(numpy.ctypeslib.as_ctypes_type(array.dtype)))

    labels = xsm.struct("labels", classes=classes, labels=pointer(train.label))
    rows = xsm.make("dataset_from_csr", None, ctypes.byref(xsm.struct(
        "csr_rows", offsets=train.starts.ctypes.data, index=train.index.ctypes.data, values=train.value.ctypes.data,
        rows=len(train.label), features=features, labels=labels)))
    context = xsm.make("context_new", ctypes.byref(xsm.struct("context_options", threads=given.threads)))
    how = xsm.struct("embedding_options", bias=1)
    model = xsm.make("model_new_embedding", context, features, given.hidden, classes, ctypes.byref(how))
    estimator = xsm.make("estimator_new", context, given.method)
    if given.method == "sampled-softmax":
        for option in ("negatives", str(NEGATIVES)), ("shared", "yes"), ("sampler", "frequency"):
            xsm.estimator_set(estimator, *option)
    optimizer = xsm.make("optimizer_new", context, "adagrad")
    batch = xsm.struct("batch", count=len(test.label), values=pointer(test.value), offsets=pointer(test.starts),
                       index=pointer(test.index), features=features)

    def learned():
        vectors = numpy.empty((len(test.label), given.hidden), numpy.float32)
        xsm.model_hidden_vectors(model, ctypes.byref(batch), pointer(vectors), given.hidden)
        view = xsm.struct("parameters")
        xsm.model_get_parameters(model, ctypes.byref(view))
        weight = numpy.ctypeslib.as_array(view.weight, (classes, view.class_step))[:, :given.hidden]
        return vectors, weight, numpy.ctypeslib.as_array(view.bias, (classes,))

    def progress(_, at):
        if at.contents.epoch_ended:
            report(learned)
        return 0

    options = xsm.struct("trainer_options", epochs=given.epochs, batch=BATCH, eta=given.rate)
    options.progress = dict(type(options)._fields_)["progress"](progress)
    trainer = xsm.make("trainer_new", context, model, rows, estimator, optimizer, ctypes.byref(options))
    report.start = time.process_time()
    xsm.trainer_run(trainer)


def by_pytorch(given, train, test, features, classes, report):
    import torch
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    sampled = given.method == "sampled-softmax"
    hidden = torch.nn.EmbeddingBag(features, given.hidden, mode="sum", sparse=True)
    weight = torch.nn.Embedding(classes, given.hidden, sparse=sampled)
    bias = torch.nn.Embedding(classes, 1, sparse=sampled)
    torch.nn.init.uniform_(hidden.weight, -(3 / given.hidden) ** 0.5, (3 / given.hidden) ** 0.5)
    torch.nn.init.zeros_(weight.weight)
    torch.nn.init.zeros_(bias.weight)
    optimizer = torch.optim.Adagrad([hidden.weight, weight.weight, bias.weight], lr=given.rate)

    def tensors(part):
        """The features of each row, their values, and the labels."""
        lengths = numpy.diff(part.starts).tolist()
        return (torch.from_numpy(part.index.astype(numpy.int64)).split(lengths), torch.from_numpy(part.value).split(lengths),
                torch.from_numpy(part.label.astype(numpy.int64)))

    index, value, label = tensors(train)
    counts = torch.bincount(label, minlength=classes) + 1.0
    log_expected = torch.log(NEGATIVES * counts / counts.sum())
    below = torch.cumsum(counts.double(), 0) / counts.sum()

    def vectors(index, value, rows):
        chosen = [index[i] for i in rows]
        starts = torch.tensor([0] + [len(c) for c in chosen[:-1]]).cumsum(0)
        return hidden(torch.cat(chosen), starts, per_sample_weights=torch.cat([value[i] for i in rows]))

    def loss_of(rows):
        x, y = vectors(index, value, rows), label[rows]
        if not sampled:
            return torch.nn.functional.cross_entropy(torch.addmm(bias.weight.T, x, weight.weight.T), y)
        drawn = torch.searchsorted(below, torch.rand(NEGATIVES, dtype=torch.double)).clamp(max=classes - 1)
        scores = torch.addmm(bias(drawn).T - log_expected[drawn], x, weight(drawn).T)
        scores = scores.masked_fill(drawn == y[:, None], -torch.inf)
        own = (x * weight(y)).sum(1, keepdim=True) + bias(y)
        return (torch.logsumexp(torch.cat([own, scores], 1), 1) - own[:, 0]).mean()

    def learned():
        with torch.no_grad():
            its = tensors(test)[:2]
            rows = vectors(*its, range(len(test.label)))
        return rows.numpy(), weight.weight.detach().numpy(), bias.weight.detach().numpy()[:, 0]

    report.start = time.process_time()
    for _ in range(given.epochs):
        order = torch.randperm(len(label)).tolist()
        for first in range(0, len(order), BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss_of(order[first:first + BATCH]).backward()
            optimizer.step()
        report(learned)


# -- all --------------------------------------------------------------------------------------------------------------

def run(given, name, **how):
    """The epochs of one run, in a process of its own; none if numbers became too large."""
    how = {"hidden": given.hidden, "epochs": given.epochs, "threads": given.threads, **how}
    command = [sys.executable, __file__, "--data", given.data, "--one", name,
               *(f"--{key}={value}" for key, value in how.items())]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed, complaint = child.communicate()
    if child.returncode:
        sys.exit(f"compare_torch: {' '.join(command)}: {complaint.strip()[-1000:]}")
    return [json.loads(line) for line in printed.splitlines()]


def one(given):
    train, test, features, classes = read(pathlib.Path(given.data) / given.one / f"{given.one}_%s.txt.gz", given.held)
    report = Report(test, numpy.bincount(train.label, minlength=classes) > 0)
    {"xsoftmax": by_xsoftmax, "PyTorch": by_pytorch}[given.program](given, train, test, features, classes, report)
    if report.epoch != given.epochs:
        sys.exit(f"{report.epoch} epochs were reported")  # an exception in a callback of C is printed and goes no further


def compare(given):
    folder = pathlib.Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "compare_torch.csv", "w", newline="") as file:
        table = csv.DictWriter(file, ["set", "method", "program", "rate", *FIELDS, "mebibytes"])
        table.writeheader()
        print("set | method | program | rate | seconds | an epoch | log-loss | P@1 | MiB\n" + "|".join(["---"] * 9))
        for name in given.sets.split(","):
            for method in METHODS:
                for program in PROGRAMS:
                    def held(rate):
                        loss = run(given, name, method=method, program=program, rate=rate, held=1, epochs=1)[0]["log_loss"]
                        return loss if numpy.isfinite(loss) else numpy.inf
                    rate = min(given.rates.split(","), key=held)
                    epochs = run(given, name, method=method, program=program, rate=rate)
                    for epoch in epochs:
                        table.writerow({"set": name, "method": method, "program": program, "rate": rate, **epoch})
                    best, end = min(epochs, key=lambda epoch: epoch["log_loss"]), epochs[-1]
                    print(f"{name} | {method} | {program} | {rate} | {best['seconds']:.1f} | "
                          f"{end['seconds'] / len(epochs):.2f} | {best['log_loss']:.4f} | {best['precision_1']:.4f} | "
                          f"{end['mebibytes']:.0f}", flush=True)
    papers = pathlib.Path(__file__).parent.parent / "papers"
    for kind in ("svg", "png"):
        try:
            subprocess.run(["gnuplot", "-e", f"folder = '{folder}'; kind = '{kind}'; scripts = '{papers}'; sets = '"
                            f"{given.sets.replace(',', ' ')}'", pathlib.Path(__file__).with_suffix(".gp")], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"compare_torch: no plot: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--folder")
    parser.add_argument("--sets", default="kg-fb15k237,s3rec-beauty")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rates", default="0.05,0.1,0.2")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--held", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    one(given) if given.one else compare(given)


if __name__ == "__main__":
    main()
