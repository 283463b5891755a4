"""Reads Extreme Classification text, and scores predictions: shares no code with the library."""
import gzip
import math

import numpy


class Rows:
    """labels: a list of label lists; values in CSR form (starts, index, value)."""

    def __init__(self, path):
        opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
        labels, starts, index, value = [], [0], [], []
        with opened as lines:
            header = next(lines).split()
            if len(header) != 3:
                raise SystemExit(f"compare: {path}: the first line is not 'rows features labels'")
            self.features = int(header[1])
            for line in lines:
                text, _, rest = line.rstrip("\n").partition(" ")
                if ":" in text:  # no label at all
                    text, rest = "", line.rstrip("\n")
                labels.append([int(l) for l in text.split(",")] if text else [])
                for pair in rest.split():
                    i, _, v = pair.partition(":")
                    index.append(int(i))
                    value.append(float(v))
                starts.append(len(index))
        self.labels = labels
        self.starts = numpy.array(starts)
        self.index = numpy.array(index, dtype=numpy.int64)
        self.value = self.raw = numpy.array(value, dtype=numpy.float64)

    def first_labels(self):
        """Rows with a label and a feature that is not zero, the first label of each."""
        keep = [i for i, l in enumerate(self.labels)
                if l and self.value[self.starts[i]:self.starts[i + 1]].any()]
        return keep, [self.labels[i][0] for i in keep]

    def unit(self):
        self.raw = self.value.copy()
        for i in range(len(self.labels)):
            part = self.value[self.starts[i]:self.starts[i + 1]]
            norm = math.sqrt(float(part @ part))
            if norm > 0:
                part /= norm

    def pairs(self, i, raw=False):
        a, b = self.starts[i], self.starts[i + 1]
        return zip(self.index[a:b], (self.raw if raw else self.value)[a:b])

    def matrix(self, keep, raw=False):
        from scipy import sparse
        values = self.raw if raw else self.value
        whole = sparse.csr_matrix((values, self.index, self.starts), shape=(len(self.labels), self.features))
        return whole[keep]


class Tally:
    """Precision at 1 and 5 over all rows; mean log-loss over those whose label was in the training rows."""

    def __init__(self, known):
        self.known = known
        self.rows = self.first = self.fifth = self.scored = 0
        self.loss = 0.0
        self.has_loss = True

    def add(self, truth, ranked, probability):
        """ranked: labels, best first; probability: of the true label, or None where the program does not say."""
        self.rows += 1
        self.first += ranked[:1] == [truth]
        self.fifth += truth in ranked[:5]
        if truth in self.known:
            self.scored += 1
            if probability is None:
                self.has_loss = False
            else:
                self.loss -= math.log(max(probability, 1e-300))

    def result(self):
        return {"log_loss": self.loss / self.scored if self.has_loss and self.scored else None,
                "p1": self.first / self.rows, "p5": self.fifth / self.rows / 5}
