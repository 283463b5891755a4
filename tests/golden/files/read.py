"""A reader of the library's files, written from doc/formats.md alone, with NumPy: what another language needs to do.

    read.py MODEL ROWS      prints the scores of all classes for each row of a file of text, LIBSVM lines or numbers
"""
import json
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from model_file import checksum, raw_contents, xxh3  # noqa: E402

DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8", "U8": "u1", "U16": "<u2", "U32": "<u4", "I8": "i1",
          "BF16": "<u2", "I32": "<i4"}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../doc/formats.md"), encoding="utf-8") as page:
    NAMED = {re.sub("^tree<t>.", "", name) for name in re.findall(r"`([^`\n]+)`", page.read())}  # and other words
LEAF, M64 = 1 << 31, 2**64 - 1


class File:
    """The container: metadata and tensors, checked."""

    def __init__(self, path):
        self.metadata, raw = raw_contents(path)
        assert self.metadata["format_version"] == "1", self.metadata["format_version"]
        assert checksum(self.metadata, raw) == self.metadata["checksum"], f"{path}: the checksum is wrong"
        self.tensors, self.dtypes = {}, {}
        for name, (dtype, shape, data) in raw.items():
            self.tensors[name] = np.frombuffer(data, DTYPES[dtype]).reshape(shape)
            self.dtypes[name] = dtype
            known = name.startswith("host.") or re.sub(r"^(tree\d+|state\.sampler)\.", "", name) in NAMED
            assert known, f"{path}: the page names no tensor {name}"

    def get(self, name):
        return self.tensors.get(name)

    def numbers(self, name, scale, shape=None):
        """Weights of any dtype as float64; a factor belongs to a row, or with `shape` to entries of these rows."""
        numbers = self.tensors[name]
        if self.dtypes[name] == "BF16":
            return (numbers.astype("<u4") << 16).view("<f4").astype(float)
        if self.dtypes[name] == "I8":
            factors = self.tensors[scale].astype(float)
            return numbers * (factors[shape] if shape is not None else factors[:, None])
        return numbers.astype(float)

    def lines(self, name, end=b"\n"):
        text = self.tensors[name].tobytes()
        return [] if not text else [line.decode() for line in text[:-1].split(end)]


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class Text:
    """How a line of text becomes features."""

    def __init__(self, file):
        line = file.metadata["vocabulary"]
        settings, self.prefix = line.split("label_prefix=", 1)
        settings = dict(pair.split("=") for pair in settings.split())
        self.fasttext = settings.pop("hash", None) == "fasttext"
        numbers = {key: int(value) for key, value in settings.items()}
        words = file.lines("vocabulary")
        assert len(words) == numbers["words"]
        self.most, self.least_chars, self.most_chars = (numbers[k] for k in ("word_ngrams", "min_chars", "max_chars"))
        self.buckets = numbers["buckets"] if self.most > 1 or self.most_chars > 0 else 0
        self.modulus = self.buckets
        kept = file.get("vocabulary_buckets")
        self.kept = None if kept is None else {int(bucket): i for i, bucket in enumerate(kept)}
        self.buckets = self.buckets if kept is None else len(kept)
        self.first = numbers.get("first", len(words)) if self.buckets else len(words)
        self.feature = {w: i if i < self.first else i + self.buckets for i, w in enumerate(words)}

    def hash(self, text):
        if not self.fasttext:
            return xxh3(text)
        h = 2166136261
        for byte in text:
            h = (h ^ (byte if byte < 128 else byte + 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
        return h

    def bucket(self, h):
        if self.fasttext:
            bucket = h % self.modulus
            return self.first + bucket if self.kept is None else self.first + self.kept[bucket] if bucket in self.kept else None
        h ^= h >> 32
        h = h * 0x9E3779B97F4A7C15 & M64
        return self.first + ((h >> 32) * self.buckets >> 32)

    def row(self, line):
        row = {}
        words = [w for w in re.split(r"[\t-\r ]+", line) if w and not w.startswith(self.prefix)]
        words += ["</s>"] if self.fasttext else []
        hashes = [self.hash(w.encode()) for w in words]
        if self.fasttext:
            hashes = [h if h < 2**31 else h + 2**64 - 2**32 for h in hashes]

        def add(feature):
            if feature is not None:
                row[feature] = row.get(feature, 0) + 1
        for i, w in enumerate(words):
            if w in self.feature:
                add(self.feature[w])
            for n in range(2, min(self.most, i + 1) + 1 if self.most > 1 else 2):
                h = 0
                for part in hashes[i - n + 1:i + 1]:
                    h = h * 116049371 + part & M64
                add(self.bucket(h))
            if self.fasttext and w == "</s>":
                continue
            marked = "<" + w + ">"
            for n in range(max(1, self.least_chars), self.most_chars + 1):
                for at in range(len(marked) - n + 1):
                    if n > 1 or 0 < at < len(marked) - 1:
                        add(self.bucket(self.hash(marked[at:at + n].encode())))
        return row


class Sparse:
    """Sparse weights as a dictionary of features for each row, and the chunks' rows."""

    def __init__(self, file, prefix, features):
        places = file.get(prefix + "indptr").astype(object)
        rows = int(places[-1][3]) & 0xFFFFFFFF
        columns, blocks = file.get(prefix + "columns").astype(int), file.get(prefix + "blocks").astype(int)
        indices = file.get(prefix + "indices").astype(int)
        self.rows = [{} for _ in range(rows)]
        self.chunks = [int(line[3]) & 0xFFFFFFFF for line in places]
        owner = np.empty(len(indices), int)
        entries = []
        for c in range(len(places) - 1):
            entry, column, block, first = (int(v) for v in places[c])
            shift, first = first >> 32, first & 0xFFFFFFFF
            for b in range(max(1, -(-features // (1 << shift)))):
                at = entry + blocks[block + b][1]
                for k in range(column + blocks[block + b][0], column + blocks[block + b + 1][0]):
                    for i in range(at, at + columns[k][1]):
                        owner[i] = first + indices[i]
                        entries.append((i, owner[i], (b << shift) + columns[k][0]))
                    at += columns[k][1]
        values = file.numbers(prefix + "values", prefix + "values_scale", owner)
        for i, row, feature in entries:
            self.rows[row][feature] = values[i]
        bias = file.get(prefix + "bias")
        self.bias = bias if bias is not None else np.zeros(rows)

    def scores(self, row):
        return np.array([sum(w[j] * x for j, x in row.items() if j in w) for w in self.rows]) + self.bias


def tree_of(nodes):
    """Children of each node; nodes are numbered level by level."""
    children, following = [], 1
    for n in nodes:
        count = 0 if n & LEAF else int(n)
        children.append(list(range(following, following + count)))
        following += count
    assert following == len(nodes)
    return children


class Model:
    def __init__(self, path):
        f = self.file = File(path)
        assert not set(f.metadata) & {"dataset", "sampler", "index"}
        self.text = Text(f) if "vocabulary" in f.metadata else None
        self.steps = [s for s in f.metadata.get("transform", "none").split(",") if s != "none"]
        self.link, self.calibration = f.metadata.get("link"), f.metadata.get("calibration")
        self.trees = f.metadata.get("label_trees")
        self.layer = f.get("embedding")
        if self.trees:
            count, self.tree_link = self.trees.split()
            features = int(f.metadata["sparse_features"])
            self.trees = [(f.get(f"tree{t}.nodes"), Sparse(f, f"tree{t}.", features)) for t in range(int(count))]
            self.classes = sum(1 for n in self.trees[0][0] if n & LEAF)
        elif f.get("weight") is None:
            self.sparse = Sparse(f, "", int(f.metadata["sparse_features"]))
            self.classes = len(self.sparse.rows)
        else:
            self.sparse, self.weight = None, f.numbers("weight", "weight_scale")
            if f.get("state.scale") is not None:
                self.weight = self.weight * f.get("state.scale")[0]
            if f.get("state.row_scale") is not None:
                self.weight = self.weight * f.get("state.row_scale")[:, None]
            self.classes = len(self.weight)
            bias = f.get("bias")
            self.bias = bias if bias is not None else np.zeros(self.classes)

    def names(self):
        if self.file.get("label_names") is not None:
            return self.file.lines("label_names")
        labels = self.file.get("labels")
        return [str(k) for k in (labels if labels is not None else range(self.classes))]

    def transform(self, row):
        f, features = self.file, int(self.file.metadata.get("input_features", 0))
        row = {j: np.float32(x) for j, x in row.items()}
        for step in self.steps:
            name, _, number = step.partition("=")
            if name == "truncate":
                row, features = {j: x for j, x in row.items() if j < int(number)}, min(features, int(number))
            elif name == "log":
                row = {j: np.float32(np.sign(x) * (1 + np.log(abs(x)))) if abs(x) > 1 else x for j, x in row.items()}
            elif name == "tfidf":
                row = {j: x * f.get("idf")[j] for j, x in row.items()}
            elif name == "standard":
                mean, scale = f.get("standard")
                row = {j: np.float32((float(x) - mean[j]) / scale[j]) for j, x in row.items()}
            elif name == "unit":
                length = np.sqrt(sum(float(x) ** 2 for x in row.values()))
                row = {j: np.float32(x / length) if length > 0 else x for j, x in row.items()}
            else:
                assert name == "products", step
                row = row | {features + k: row[a] * row[b] for k, (a, b) in enumerate(f.get("products"))
                             if a in row and b in row}
                features += len(f.get("products"))
        return row

    def hidden(self, row):
        f = self.file
        activation, pool, *rest = f.metadata["first_layer"].split()
        vectors = self.weight if rest[-1] == "tied" else f.numbers("embedding", "embedding_scale")
        if f.get("state.layer_scale") is not None:
            vectors = vectors * f.get("state.layer_scale")[0]
        phi = sum((x * vectors[j] for j, x in row.items()), np.zeros(vectors.shape[1]))
        phi = phi / max(1, len(row)) if pool == "mean" else phi
        phi = phi / (sum(abs(x) for x in row.values()) or 1) if pool == "weighted-mean" else phi
        return {"identity": lambda v: v, "relu": lambda v: np.maximum(v, 0), "tanh": np.tanh}[activation](phi)

    def corrected(self, z, row):
        f = self.file
        if f.get("correction") is not None:
            z = z + f.get("correction")
        if f.get("tree_nodes") is not None:
            z = z + tree_log_probabilities(f, row)
        if f.get("pair_counts") is not None:
            ends = np.cumsum(f.get("pair_counts"))
            for j, x in row.items():
                part = slice(ends[j] - f.get("pair_counts")[j], ends[j])
                np.add.at(z, f.get("pair_classes")[part], x * f.get("pair_values")[part].astype(float))
        return z

    def hierarchy(self, z):
        """From the scores of nodes, in preorder, to log p(k|x)."""
        nodes = self.file.get("nodes")
        children, out, number = tree_of(nodes), np.empty(self.classes), iter(range(self.classes))
        stack = [(0, 0.0)]
        while stack:
            v, log_p = stack.pop()
            if nodes[v] & LEAF:
                out[nodes[v] & ~np.uint32(LEAF)] = log_p
                continue
            left, right = children[v]
            score = z[next(number)]
            stack.append((right, log_p - np.logaddexp(0, -score)))
            stack.append((left, log_p - np.logaddexp(0, score)))
        return out

    def tree_probabilities(self, row):
        mean = np.zeros(self.classes)
        for nodes, weights in self.trees:
            z, p = weights.scores(row), np.ones(len(nodes))
            for v, below in enumerate(tree_of(nodes)):
                if not below:
                    continue
                own = z[below[0] - 1:below[-1]]
                own = (np.exp(own - np.logaddexp.reduce(own)) if self.tree_link == "softmax"
                       else np.exp(-np.maximum(0, 1 - own) ** 2) if self.tree_link == "hinge" else sigmoid(own))
                p[below] = p[v] * own
            for v, n in enumerate(nodes):
                if n & LEAF:
                    mean[n & ~np.uint32(LEAF)] += p[v] / len(self.trees)
        return mean

    def scores(self, row):
        """Of all classes, for a row {feature: value}, before the transform."""
        row = self.transform(row)
        if self.trees:
            with np.errstate(divide="ignore"):
                return np.log(self.tree_probabilities(row))
        if self.sparse:
            return self.sparse.scores(row)
        dense = np.zeros(self.weight.shape[1])
        if self.layer is not None or "first_layer" in self.file.metadata:
            dense = self.hidden(row)
        else:
            for j, x in row.items():
                dense[j] = x
        z = self.weight @ dense + self.bias
        return self.hierarchy(z) if self.file.get("nodes") is not None else self.corrected(z, row)

    def probabilities(self, row):
        z = self.scores(row)
        method, *numbers = (self.calibration or "none").split()
        a, b = [float(n) for n in numbers] + [1, 0][len(numbers):]
        if method == "labels" or (method == "none" and self.link == "sigmoid"):
            return sigmoid(a * z + b)
        if self.trees and method == "none" and self.tree_link != "normalised":
            return np.exp(z)
        return np.exp(a * z - np.logaddexp.reduce(a * z))


def tree_log_probabilities(file, row):
    nodes, leaves = file.get("tree_nodes").astype(float), file.get("tree_leaves")
    directions = file.get("tree_directions").astype(float)
    x = np.zeros(len(directions))
    for j, value in row.items():
        x[j] = value
    code = np.zeros(nodes.shape[1])
    code[:directions.shape[1]] = (x - file.get("tree_mean")) @ directions
    code[directions.shape[1]] = 1
    out = np.zeros(len(leaves))
    for k, leaf in enumerate(leaves):
        v = len(nodes) + int(leaf)
        while v > 1:
            score = nodes[v // 2] @ code
            out[k] -= np.logaddexp(0, -score if v % 2 else score)
            v //= 2
    return out


def recent_log_probabilities(file):
    ring, classes, share = file.get("labels"), int(file.metadata["classes"]), float(file.metadata["option.share"])
    ring = ring[:int(file.get("labels_seen")[0])]
    return np.log(share * np.bincount(ring, minlength=classes) / len(ring) + (1 - share) / classes)


def midx_log_probabilities(file, row):
    features, (first, second) = int(file.metadata["features"]), file.get("words").astype(float)
    x = np.zeros(first.shape[1])
    x[[*row, features]] = [*row.values(), 1]
    cells, m = file.get("cells"), len(first)
    z = (first @ x)[cells // m] + (second @ x)[cells % m]
    return z - np.logaddexp.reduce(z)


def label_tree_log_probabilities(file):
    """Of a tree whose root is above all classes."""
    nodes, share = file.get("tree0.nodes")[1:], float(file.metadata["option.share"])
    assert file.get("link")[0] == 2 and (nodes & np.uint32(LEAF) > 0).all()
    own = np.empty(len(nodes))
    own[nodes & ~np.uint32(LEAF)] = np.diff(file.get("sums").astype(float))
    return np.log((1 - share) * own + share * np.exp(file.get("log_q")))


def rows_of(model, path):
    for line in open(path, encoding="utf-8"):
        if model.text:
            yield model.text.row(line)
        elif ":" in line:
            base = int(model.file.metadata.get("index_base", 0))
            known = model.file.get("feature_numbers")
            place = {int(n): j for j, n in enumerate(known)} if known is not None else None
            pairs = [p.split(":") for p in line.split() if ":" in p]
            row = {place.get(int(j)) if place is not None else int(j) - base: float(x) for j, x in pairs}
            yield {j: x for j, x in row.items() if j is not None}
        else:
            yield {j: float(x) for j, x in enumerate(line.split(","))}


if __name__ == "__main__":
    m = Model(sys.argv[1])
    for r in rows_of(m, sys.argv[2]):
        print(*(f"{name}:{z:.6g}" for name, z in zip(m.names(), m.scores(r))), sep="\t")
