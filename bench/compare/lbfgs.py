"""The softmax's optimum by the library and by scikit-learn; see bench/compare_lbfgs.sh."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy  # noqa: E402
from compare import find  # noqa: E402
from rows import Rows  # noqa: E402

# scikit-learn's lbfgs stops when no element of the gradient is above tol; its default would stop by max_iter first.
LEARN = r"""
import sys, time
import numpy, scipy.sparse, warnings
from sklearn.linear_model import LogisticRegression
data = numpy.load(sys.argv[1])
x = scipy.sparse.csr_matrix((data["value"], data["index"], data["starts"]),
                            shape=(len(data["starts"]) - 1, int(data["features"])))
learner = LogisticRegression(multi_class="multinomial", solver="lbfgs", C=1 / float(sys.argv[3]), fit_intercept=False,
                             tol=float(sys.argv[4]), max_iter=int(sys.argv[5]))
warnings.simplefilter("ignore")
start = time.monotonic()
learner.fit(x, data["labels"])
seconds = time.monotonic() - start
w = learner.coef_ if len(learner.classes_) > 2 else numpy.vstack([-learner.coef_, learner.coef_]) / 2
numpy.savez(sys.argv[2], seconds=seconds, weight=w, iterations=learner.n_iter_.max())
"""


def read_weights(path):
    """A safetensors file's `weight`."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        entry = header["weight"]
        file.seek(8 + length + entry["data_offsets"][0])
        count = entry["shape"][0] * entry["shape"][1]
        return numpy.frombuffer(file.read(4 * count), dtype="<f4").reshape(entry["shape"]).astype(float)


def objective(x, y, w, ridge):
    total = 0.0
    for first in range(0, x.shape[0], 4096):
        z = x[first:first + 4096] @ w.T
        top = z.max(axis=1)
        total += (numpy.log(numpy.exp(z - top[:, None]).sum(axis=1)) + top).sum()
        total -= z[numpy.arange(z.shape[0]), y[first:first + 4096]].sum()
    return total + ridge / 2 * (w ** 2).sum()


def ours(options, train, folder):
    model = os.path.join(folder, "model.safetensors")
    done = subprocess.run([options.program, "train", "--data", train, "--labels", "first", "--transform", "unit",
                           "--estimator", "softmax", "--bias", "no", "--ridge", str(options.ridge), "--optimizer", "lbfgs",
                           "--threads", str(options.threads), "--model", model, "--json"],
                          stdout=subprocess.PIPE, text=True, check=True)
    said = json.loads(done.stdout)
    return {"seconds": said["train_seconds"], "iterations": said["iterations"], "said": said["objective"],
            "weight": read_weights(model)}


def theirs(options, data, folder, tol, most):
    out = os.path.join(folder, "learned.npz")
    threads = {name: str(options.threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", LEARN, data, out, str(options.ridge), str(tol), str(most)], check=True,
                   env={**os.environ, **threads})
    learned = numpy.load(out)
    return {"seconds": float(learned["seconds"]), "iterations": int(learned["iterations"]), "weight": learned["weight"]}


def compare(data, options):
    train, _ = find(data)
    name = os.path.basename(os.path.normpath(data))
    rows = Rows(train)
    rows.unit()
    keep, labels = rows.first_labels()
    x = rows.matrix(keep)
    classes, y = numpy.unique(labels, return_inverse=True)
    if not options.json:
        print(f"\n{name}: {x.shape[0]} rows, {x.shape[1]} features, {len(classes)} classes; {options.threads} threads, "
              f"first label, unit rows, no bias, ridge {options.ridge:g}")
        print(f"{'method':36} {'objective':>14} {'above best':>11} {'iterations':>10} {'seconds':>8}")
    with tempfile.TemporaryDirectory(prefix="xsoftmax-compare.") as folder:
        path = os.path.join(folder, "rows.npz")
        numpy.savez(path, value=x.data, index=x.indices, starts=x.indptr, features=x.shape[1], labels=y)
        methods = {
            "xsoftmax lbfgs": lambda: ours(options, train, folder),
            "scikit-learn lbfgs, tol 1e-4": lambda: theirs(options, path, folder, 1e-4, 10000),
            "scikit-learn lbfgs, 100 iterations": lambda: theirs(options, path, folder, 1e-4, 100),
        }
        results = {}
        for method, run in methods.items():
            tries = [run() for _ in range(options.repeats)]
            results[method] = min(tries, key=lambda r: r["seconds"])
            results[method]["objective"] = objective(x, y, results[method]["weight"], options.ridge)
    best = min(r["objective"] for r in results.values())
    for method, r in results.items():
        above = r["objective"] / best - 1
        if options.json:
            print(json.dumps({"data": name, "method": method, "objective": r["objective"], "above_best": above,
                              "iterations": r["iterations"], "seconds": r["seconds"]}), flush=True)
        else:
            print(f"{method:36} {r['objective']:14.4f} {above:11.1e} {r['iterations']:10} {r['seconds']:8.3f}", flush=True)
    mine = results["xsoftmax lbfgs"]
    return abs(mine["said"] / mine["objective"] - 1) < 1e-6 and mine["objective"] < best * (1 + 1e-4)


def main():
    parser = argparse.ArgumentParser(prog="compare_lbfgs.sh", description="The optimum of the softmax with a ridge, by "
                                     "the library and by scikit-learn.")
    parser.add_argument("data", nargs="*", metavar="DATA", default=["mnist", "bibtex", "delicious"])
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a line of JSON a method, nothing else")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--ridge", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=1, help="runs of each, of which the fastest counts (1)")
    options = parser.parse_args()
    agree = [compare(data, options) for data in options.data]
    if not all(agree):
        sys.exit("compare_lbfgs: the objectives do not agree to 1e-4")


if __name__ == "__main__":
    main()
