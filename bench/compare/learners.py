"""scikit-learn's linear classifiers, class means and nearest rows, on rows that regret.py has stored: run by it as

    python3 learners.py ROWS.npz OUT.npz THREADS NAME [STEP]

NAME is one of LEARNERS; STEP is standard (columns of mean 0 and variance 1), tfidf or unit. OUT.npz has the ten best classes
of each test row, the processor seconds of training, and the bytes of what it made. Settings are those that one has without
naming any, but for iterations, which are more.
"""
import pickle
import sys
import time

import numpy
from joblib import parallel_backend
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

BEST = 10
ROWS_AT_ONCE = 500


class ClassMeans:
    """The nearest class mean."""

    def fit(self, x, y):
        count = numpy.maximum(1, numpy.asarray(y.sum(0)).ravel())
        self.means = sparse.diags(1 / count) @ (y.T @ x)
        self.half = numpy.asarray(self.means.multiply(self.means).sum(1) if sparse.issparse(self.means)
                                  else (self.means**2).sum(1)).ravel() / 2

    def decision_function(self, x):
        return plain(x @ self.means.T) - self.half


class NearestRows:
    """Votes of the nearest rows, each the less the further."""

    def __init__(self, count):
        self.count = count

    def fit(self, x, y):
        self.x, self.y = x, y
        self.half = numpy.asarray(x.multiply(x).sum(1) if sparse.issparse(x) else (x**2).sum(1)).ravel() / 2

    def decision_function(self, x):
        scores = plain(x @ self.x.T) - self.half
        near = top(scores, min(self.count, scores.shape[1]))
        weight = 1 / (1 + numpy.arange(near.shape[1]))
        votes = sparse.csr_matrix((numpy.tile(weight, len(near)), near.ravel(), numpy.arange(len(near) + 1) * near.shape[1]),
                                  scores.shape)
        return plain(votes @ self.y)


LEARNERS = {"LogisticRegression": lambda: LogisticRegression(max_iter=1000), "LinearSVC": LinearSVC,
            "class means": ClassMeans, "nearest row": lambda: NearestRows(1), "10 nearest rows": lambda: NearestRows(10)}


def plain(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else numpy.asarray(matrix)


def top(scores, count):
    """The places of the highest scores of each row, the highest first."""
    best = numpy.argpartition(-scores, count - 1, axis=1)[:, :count]
    return numpy.take_along_axis(best, numpy.argsort(-numpy.take_along_axis(scores, best, 1), axis=1, kind="stable"), 1)


def step_of(name, x, t):
    if name == "standard":
        scaler = StandardScaler(with_mean=not sparse.issparse(x)).fit(x)
        return scaler.transform(x), scaler.transform(t)
    if name == "tfidf":
        tfidf = TfidfTransformer(sublinear_tf=True).fit(x)
        return tfidf.transform(x), tfidf.transform(t)
    return (normalize(x), normalize(t)) if name else (x, t)


def learn(data, threads, name, step=None):
    def part(of, columns):
        starts = data[of + "_starts"]
        return sparse.csr_matrix((data[of + "_value"], data[of + "_index"], starts), (len(starts) - 1, columns))

    x, t = part("train", int(data["features"])), part("test", int(data["features"]))
    if x.nnz > x.shape[0] * x.shape[1] / 2:
        x, t = x.toarray(), t.toarray()
    y = part("label", 1 + int(data["label_index"].max()))
    start = time.process_time()
    x, t = step_of(step, x, t)
    learner = LEARNERS[name]()
    classes = numpy.arange(y.shape[1])
    if name.startswith("L"):
        several = y.nnz > y.shape[0]
        if several:
            learner = OneVsRestClassifier(learner, n_jobs=threads)
        with parallel_backend("threading"):
            learner.fit(x, y if several else y.indices)
        classes = learner.classes_
    else:
        learner.fit(x, y)
    seconds = time.process_time() - start
    best = numpy.full((t.shape[0], BEST), -1)
    for at in range(0, t.shape[0], ROWS_AT_ONCE):
        scores = learner.decision_function(t[at:at + ROWS_AT_ONCE])
        if scores.ndim == 1:
            scores = numpy.c_[-scores, scores]
        some = top(scores, min(BEST, scores.shape[1]))
        best[at:at + len(some), :some.shape[1]] = classes[some]
    return {"processor_seconds": seconds, "bytes": len(pickle.dumps(learner)), "best": best}


if __name__ == "__main__":
    numpy.savez(sys.argv[2], **learn(numpy.load(sys.argv[1]), int(sys.argv[3]), *sys.argv[4:]))
