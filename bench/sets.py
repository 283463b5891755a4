"""Sets of rows to train and to test on: files of a folder, what Debian's packages carry, and rows that are made up.

Makers of texts give pairs of labels (a list) and a text, those of tables an array and labels of each row. A package that is
not installed is a FileNotFoundError.
"""
import csv
import dataclasses
import glob
import gzip
import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

try:
    import numpy
    from scipy import sparse
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file
except ImportError:  # another Python, earlier on PATH, does not see Debian's modules
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

STATSMODELS = "/usr/lib/python3/dist-packages/statsmodels/datasets/"
SKLEARN = "/usr/lib/python3/dist-packages/sklearn/datasets/data/"
WEKA = "/usr/share/doc/weka/examples/"
LOCALES = ("en", "en_001", "en_AU", "en_CA", "en_GB", "en_IN", "da", "de", "es", "fr", "it", "no", "nl", "pt", "sv")


@dataclasses.dataclass
class Part:
    """Rows: a list of texts, a dense array, or a sparse matrix, and a list of labels for each."""
    x: object
    labels: list

    def of(self, rows):
        return Part([self.x[i] for i in rows] if isinstance(self.x, list) else self.x[rows], [self.labels[i] for i in rows])

    def with_labels(self):
        return self.of([i for i, some in enumerate(self.labels) if some])


@dataclasses.dataclass
class Set:
    name: str
    train: Part
    test: Part
    flags: list = None  # how the program reads files that are there already

    def several(self):
        return any(len(labels) > 1 for labels in self.train.labels)

    def read_flags(self, folder):
        """Writes the rows as a user would have them, if no file has them yet; the flags that name the files."""
        if self.flags is None:
            self.flags = []
            for flag, part in (("data", self.train), ("test", self.test)):
                self.flags += write(os.path.join(folder, flag), flag, part, self.several(), self.classes())
        return self.flags

    def classes(self):
        """A number for each label, those of the training rows first."""
        number = {}
        for part in (self.train, self.test):
            for labels in part.labels:
                for label in labels:
                    number.setdefault(label, len(number))
        return number


def write(path, flag, part, several, number):
    labels = [[number[label] for label in some] for some in part.labels]
    if isinstance(part.x, list):
        with open(path + ".txt", "w", encoding="utf-8") as out:
            for some, text in zip(part.labels, part.x):
                out.write("".join(f"__label__{re.sub(r'[^!-~]+', '_', str(label))}.{number[label]} " for label in some)
                          + text + "\n")
        return [f"--{flag}", path + ".txt"]
    if isinstance(part.x, numpy.ndarray) and not several:
        numpy.save(path + ".npy", part.x.astype("f4"))
        numpy.save(path + "_y.npy", numpy.array([some[0] for some in labels], "i4"))
        return [f"--{flag}", path + ".npy", "--labels-from" if flag == "data" else "--test-labels-from", path + "_y.npy"]
    with open(path + ".xc", "wb") as out:
        out.write(f"{part.x.shape[0]} {part.x.shape[1]} {len(number)}\n".encode())
        dump_svmlight_file(part.x, indicator(labels, len(number)), out, multilabel=True)
    return [f"--{flag}", path + ".xc"]


def indicator(labels, classes):
    """A sparse matrix of ones: rows and their labels."""
    starts = numpy.cumsum([0] + [len(some) for some in labels])
    return sparse.csr_matrix((numpy.ones(starts[-1]), [label for some in labels for label in some], starts),
                             (len(labels), classes))


def fifths(count):
    """Rows to train and to test on: every fifth is for testing; the order is one at random, always the same."""
    order = list(range(count))
    random.Random(1).shuffle(order)
    return [i for k, i in enumerate(order) if k % 5], order[::5]


def divided(name, x, labels):
    return Set(name, *(Part(x, labels).of(some) for some in fifths(len(labels))))


# -- Files of a folder ------------------------------------------------------------------------------------------------

def lines_of(path):
    return gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")


def read_part(path):
    """Lines of fastText, a matrix of NumPy with its labels beside it, or Extreme Classification text."""
    if path.endswith(".npy.gz"):
        with gzip.open(path) as x, gzip.open(path.replace(".npy", "_y.npy")) as y:
            return Part(numpy.load(x), [[int(label)] for label in numpy.load(y)])
    with lines_of(path) as lines:
        first = next(lines)
        if first.startswith("__label__"):
            rows = [line.split() for line in (first, *lines)]
            return Part([" ".join(w for w in row if not w.startswith("__label__")) for row in rows],
                        [[w[9:] for w in row if w.startswith("__label__")] for row in rows])
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        columns = int(next(file).split()[1])
        x, labels = load_svmlight_file(file, n_features=columns, multilabel=True, zero_based=True)
    return Part(x, [[int(label) for label in some] for some in labels])


def folder_set(folder):
    """The set of a folder with one file of each part, or with one table; None if there is neither."""
    name = os.path.basename(folder)
    for ending in ("txt.gz", "txt", "npy.gz"):
        found = [glob.glob(os.path.join(folder, f"*{part}.{ending}")) for part in ("_train", "_test")]
        if all(len(some) == 1 for some in found):
            train, test = (read_part(some[0]) for some in found)
            files = ["--data", found[0][0], "--test", found[1][0]]
            return Set(name, train, test, None if ending == "npy.gz" else files)
    for path in glob.glob(os.path.join(folder, "*.csv.gz")):
        with lines_of(path) as file:
            rows = list(csv.reader(file, delimiter=";"))[1:]
        return divided(name, numpy.array([row[:-1] for row in rows], float), [[row[-1]] for row in rows])
    return None


# -- Debian's packages ------------------------------------------------------------------------------------------------

def words(text):
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def unicode_data():
    with open("/usr/share/unicode/UnicodeData.txt", encoding="utf-8") as file:
        return [([row[2]], words(row[1])) for row in (line.split(";") for line in file)]


def oui():
    with open("/usr/share/ieee-data/oui.csv", encoding="utf-8", newline="") as file:
        return [([row[2]], words(row[3])) for row in list(csv.reader(file))[1:]]


def devices(path):
    vendor = ""
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if re.match(r"[0-9a-f]{4}  ", line):
                vendor = line[6:].strip()
            elif re.match(r"[A-Z]", line):
                vendor = ""
            elif re.match(r"\t[0-9a-f]{4}  ", line) and vendor:
                yield [vendor], words(line[7:])


def pci():
    return list(devices("/usr/share/misc/pci.ids"))


def usb():
    return list(devices("/usr/share/misc/usb.ids"))


def wordnet():
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"/usr/share/wordnet/data.{part}", encoding="utf-8") as file:
            for line in file:
                if not line.startswith(" "):
                    left, gloss = line.split("|", 1)
                    yield [f"{part}.{left.split()[1]}"], words(gloss)


def annotations(locales):
    """A character and its keywords in a language."""
    for locale in locales:
        tree = xml.parse(f"/usr/share/unicode/cldr/common/annotations/{locale}.xml")
        for item in tree.getroot().iter("annotation"):
            if item.get("type") is None and item.text and item.get("cp") != '"':
                yield item.get("cp"), [words(key) for key in item.text.split("|") if words(key)]


def emoji():
    return [([character], " ".join(keys)) for character, keys in annotations(LOCALES)]


def spelling():
    with open("/usr/share/hunspell/en_US.dic", encoding="utf-8", errors="replace") as file:
        for line in list(file)[1:]:
            word, _, flags = line.strip().partition("/")
            yield sorted(set(flags)), word


def packages():
    text = subprocess.run(["dpkg-query", "-W", "-f", "${Section}\t${binary:Summary}\n"], capture_output=True, text=True,
                          check=True).stdout
    return [([section], words(summary)) for section, summary in (line.split("\t", 1) for line in text.splitlines())]


def regions():
    with open("/usr/share/iso-codes/json/iso_3166-2.json", encoding="utf-8") as file:
        return [([item["code"][:2]], words(item["name"])) for item in json.load(file)["3166-2"]]


def text_set(name, rows):
    labels, texts = zip(*rows)
    return divided(name, list(texts), list(labels))


def table(path, label=-1, head=1, separator=","):
    """Columns of numbers and one of labels; a column that has a word is left out."""
    with lines_of(path) as file:
        rows = [row for row in csv.reader(file, delimiter=separator) if row][head:]
    labels = [[row[label]] for row in rows]
    kept = []
    for column in range(len(rows[0])):
        if column != label % len(rows[0]):
            try:
                kept.append([float(row[column]) for row in rows])
            except ValueError:
                pass
    return numpy.array(kept).T, labels


def arff(name):
    with open(WEKA + name + ".arff", encoding="utf-8") as file:
        rows = re.split(r"(?im)^\s*@data.*$", file.read(), 1)[1].splitlines()
    rows = [row.split(",") for row in rows if row.strip() and not row.startswith("%")]
    return numpy.array([row[:-1] for row in rows], float), [[row[-1]] for row in rows]


def segment():
    return Set("segment", Part(*arff("segment-challenge")), Part(*arff("segment-test")))


TEXTS = {"unicode": unicode_data, "oui": oui, "pci": pci, "usb": usb, "wordnet": wordnet, "emoji": emoji,
         "spelling": spelling, "packages": packages, "regions": regions}
TABLES = {"digits": lambda: table(SKLEARN + "digits.csv.gz", head=0), "iris": lambda: table(SKLEARN + "iris.csv"),
          "wine": lambda: table(SKLEARN + "wine_data.csv"), "breast-cancer": lambda: table(SKLEARN + "breast_cancer.csv"),
          "anes": lambda: table(STATSMODELS + "anes96/anes96.csv", 5, separator="\t"),
          "fair": lambda: table(STATSMODELS + "fair/fair.csv", 0),
          "glass": lambda: arff("glass"), "diabetes": lambda: arff("diabetes")}


def debian():
    """(name, maker) of each set of a package."""
    found = {f"debian/{name}": lambda name=name, rows=rows: divided(f"debian/{name}", *rows()) for name, rows in TABLES.items()}
    found["debian/segment"] = segment
    for name, rows in TEXTS.items():
        found[f"debian/{name}"] = lambda name=name, rows=rows: text_set(f"debian/{name}", rows())
    return found


# -- Made-up rows -----------------------------------------------------------------------------------------------------

def whole(rng, least, most):
    """A whole number whose logarithm is uniform."""
    return int(round(numpy.exp(rng.uniform(numpy.log(least), numpy.log(most)))))


def ones(y):
    return [[int(label)] for label in y]


def few_rows(name, seed):
    """Dense rows around the centres of many classes, few rows a class."""
    rng = numpy.random.default_rng(seed)
    classes, features, spread = whole(rng, 2000, 40000), whole(rng, 32, 128), rng.uniform(.6, .9)
    n = int(classes * rng.uniform(1.5, 3))
    centres = rng.normal(size=(classes, features))
    y = rng.integers(0, classes, n + 2000)
    x = (centres[y] + spread * rng.normal(size=(n + 2000, features))).astype("f4")
    return Set(name, Part(x[:n], ones(y[:n])), Part(x[n:], ones(y[n:])))


def mixed_scales(name, seed):
    """Columns of unlike scales and offsets, and columns of 0 and 1; linear once they are standardised."""
    rng = numpy.random.default_rng(seed)
    n, classes = 25000, int(rng.integers(3, 13))
    z = rng.normal(size=(n, 10))
    flags = rng.random((n, 20)) < rng.uniform(.02, .5, 20)
    weights = rng.normal(size=(30, classes)) * numpy.r_[numpy.full(10, 1.2), numpy.full(20, .8)][:, None]
    y = (numpy.c_[z, flags] @ weights + rng.gumbel(size=(n, classes))).argmax(1)
    x = numpy.c_[numpy.round(z * numpy.geomspace(20, 3000, 10) + rng.uniform(0, 3000, 10), 1), flags]
    return Set(name, Part(x[:20000], ones(y[:20000])), Part(x[20000:], ones(y[20000:])))


def any_shape(name, seed, rows=50000, values=1e6):
    """Rows of any shape, but for at most so many rows and values: see the draws."""
    rng = numpy.random.default_rng(seed)
    dense, classes, rows_a_class = rng.random() < .5, whole(rng, 2, 50000), whole(rng, 1, 1000)
    features = whole(rng, 2, 300) if dense else whole(rng, 50, 30000)
    filled = features if dense else min(whole(rng, 2, 100), features // 2)
    n = int(max(20, min(classes * rows_a_class, rows, values / filled)))
    noise = rng.choice([0, rng.random(), 1], p=[.3, .6, .1])
    share = 1 / numpy.arange(1, classes + 1) ** rng.choice([0, .5, 1])
    y = rng.choice(classes, n + 1000, p=share / share.sum())
    if dense:
        centres = rng.normal(size=(classes, features)).astype("f4")
        x = centres[y] + whole(rng, 20, 200) / 100 * rng.normal(size=(len(y), features)).astype("f4")
        if rng.random() < .5:
            x = x * numpy.exp(rng.uniform(-7, 7, features)) + rng.normal(size=features) * rng.choice([0, 1, 100])
    else:
        own = rng.integers(0, features, (classes, filled))
        stray = rng.random((len(y), filled)) < rng.uniform(.1, .7)
        index = numpy.where(stray, (features * rng.random((len(y), filled)) ** 2).astype(int), own[y])
        x = sparse.csr_matrix((1 + rng.poisson(.5, index.size), index.ravel(), numpy.arange(len(y) + 1) * filled),
                              (len(y), features), dtype="f8")
        x.sum_duplicates()
    x = x * 10.0 ** rng.uniform(-6, 6)
    y = numpy.where(rng.random(len(y)) < noise, rng.integers(0, classes, len(y)), y)
    labels = ones(y)
    if classes > 3 and rng.random() < .3:  # its neighbours, too
        for some, count in zip(labels, rng.poisson(1.5, len(y))):
            some += [(some[0] + k) % classes for k in range(1, 1 + min(count, classes - 1))]
    return Set(name, Part(x[:n], labels[:n]), Part(x[n:], labels[n:]))
