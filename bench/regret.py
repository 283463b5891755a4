#!/usr/bin/env python3
"""What `xsoftmax train` makes of a set by itself, beside the best of what one can have by hand, and the regret.

    python3 bench/regret.py [SETS...] [--quick] [--program FILE] [--data FOLDER] [--seed S] [--keep FILE] [--limit SECONDS]
    python3 bench/regret.py --useless N

SETS are names or beginnings of names, all by default; --list prints them:
    data/...    the folders of $XSM_DATA or ../shared/data
    debian/...  sets from Debian's packages, as far as they are installed
    few/S/I, mixed/S/I  made-up rows (few a class; columns of unlike scales), ten of each
    any/S/I     made-up rows of any shape: --useless N takes N of them, against the prior and class means alone, and prints
                those that miss something
S is the seed of the made-up sets, drawn at random unless --seed gives it.

By hand: the lines of `by_hand()` and `learners()`, and XR-Linear if $PECOS names a checkout. Each runs on two threads and
may take so many seconds of processor time, which other work on the machine does not add to; who takes longer, or is too
large, is left out and named on standard error. Seconds of the program are of the whole command, those of scikit-learn and
XR-Linear of training alone. The measure is P@1, of sets with several labels a row nDCG@10. The regret is that to the best
but for nearest rows, which no linear method replaces; they have a column. Nothing here may choose anything in the library.
Needs python3-sklearn; fasttext can be lacking.
"""
import argparse
import hashlib
import json
import math
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
THREADS = 2
DEFAULT_MOST = 900  # processor seconds of the default command, beyond which it has failed
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "bench", "compare")]
import sets  # noqa: E402
import numpy  # noqa: E402
from peers import Skip, run  # noqa: E402
from scipy import sparse  # noqa: E402
from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402

ABSOLUTE, RELATIVE = .01, .05  # the regret that may be
SECONDS, TIMES = 5, 1.5  # seconds on each thread, or times the fastest of those that reach it, that may pass
EXACT_MOST, LBFGS_MOST = 3e10, 2e7  # values times classes, beyond which no line scores every class, or all rows at once
SVC_MOST, LOGISTIC_MOST, NEAREST_MOST = 7e6, 4e6, 1e7  # values times classes, or rows times test rows, a second of the limit
COLUMNS = ("set", "rows × features → classes", "chosen", "default", "log-loss (prior's)", "prior",
           "choice + run; processor (s)", "model", "best by hand", "its score", "processor (s)", "model",
           "nearest rows", "regret", "relative", "missed")
WORDS = {"failed": "failed", "regret": f"with a regret above {ABSOLUTE} or {100 * RELATIVE:g} % (!)", "!!": "of them beyond two "
         "standard errors (!!)", "slow": "slow", "useless": "useless models", "log-loss": "with a log-loss above the prior's"}
FAILED = {"score": 0, "first": 0, "loss": math.nan, "choice": 0, "run": 0, "seconds": 0, "bytes": 0, "method": "failed",
          "transform": "", "ngrams": ""}


class Problem:
    """A set, its files, its rows as a matrix, and the measure."""

    def __init__(self, name, made, folder, options):
        self.name, self.folder, self.options = name, folder, options
        self.flags, self.several = made.read_flags(folder), made.several()
        self.text, self.dense = isinstance(made.train.x, list), isinstance(made.train.x, numpy.ndarray)
        number, (train, test) = made.classes(), (part.with_labels() for part in (made.train, made.test))
        self.labels, self.truth = ([[number[label] for label in some] for some in part.labels] for part in (train, test))
        self.x, self.t = train.x, test.x
        if self.text:
            self.texts, counts = (self.x, self.t), CountVectorizer(token_pattern=r"\S+", lowercase=False)
            self.x, self.t = counts.fit_transform(self.x), counts.transform(self.t)
        self.x, self.t = sparse.csr_matrix(self.x, dtype="f4"), sparse.csr_matrix(self.t, dtype="f4")
        self.classes = 1 + max(max(some) for some in self.labels)
        self.work = self.x.nnz * self.classes
        self.count = numpy.bincount([label for some in self.labels for label in some], minlength=self.classes)

    def measure(self, best):
        """P@1, or of several labels nDCG@10, of ten classes a row, best first, -1 where there is none."""
        gain = 1 / numpy.log2(numpy.arange(10) + 2)
        if not self.several:
            return float(numpy.mean([row[0] == some[0] for row, some in zip(best, self.truth)]))
        return float(numpy.mean([sum(g for g, label in zip(gain, row) if label in set(some)) / gain[:len(set(some))].sum()
                                 for row, some in zip(best, self.truth)]))

    def prior(self):
        """The measure of the most frequent classes, and of one label their log-loss over rows whose class was seen."""
        best = numpy.argsort(-self.count, kind="stable")[:10]
        seen = [] if self.several else [some[0] for some in self.truth if some[0] < self.classes]
        loss = -numpy.log(self.count[seen] / len(self.labels)).mean() if seen else math.nan
        return self.measure([best] * len(self.truth)), float(loss)

    def error(self, *scores):
        """The standard error of a difference, or what bounds it."""
        return math.sqrt(sum(score * (1 - score) for score in scores) / len(self.truth))

    def rows_file(self):
        """The rows as xr_linear.py and learners.py read them."""
        path = os.path.join(self.folder, "rows.npz")
        if not os.path.exists(path):
            y = sets.indicator(self.labels, self.classes)
            numpy.savez(path, features=self.x.shape[1], **{f"{of}_{what}": values for of, m in (
                ("train", self.x), ("test", self.t), ("label", y)) for what, values in (
                    ("value", m.data), ("index", m.indices), ("starts", m.indptr))})
        return path


def ours(problem, line, limit=None):
    """What the program reaches with these flags more."""
    model = os.path.join(problem.folder, "model")
    spent, printed = run([problem.options.program, "train", *problem.flags, *shlex.split(line), "--threads", str(THREADS),
                          "--json", "--evaluate-train", "no", "--model", model], limit or problem.options.limit)
    said = json.loads(printed)
    test, choice = said["test"], said.get("choice") or {}
    return {"score": test["ndcg"]["10"] if problem.several else test["precision"]["1"], "first": test["precision"]["1"],
            "loss": math.nan if test["log_loss"] is None else test["log_loss"], "choice": said["choice_seconds"] or 0,
            "run": said["train_seconds"], "seconds": spent, "bytes": os.path.getsize(model),
            "method": said["method"], "transform": choice.get("transform") or "",
            "ngrams": (choice.get("ngrams") or {}).get("name") or ""}


def script(name, *arguments, most=math.inf, of=0):
    def learn(problem):
        if of and of(problem) > most * problem.options.limit:
            raise Skip("too large")
        out = os.path.join(problem.folder, "out.npz")
        path = os.path.join(ROOT, "bench", "compare", name)
        run([sys.executable, path, problem.rows_file(), out, str(THREADS), *arguments], problem.options.limit)
        found = numpy.load(out)
        return {"score": problem.measure(found["best"]), "seconds": float(found["processor_seconds"]),
                "bytes": int(found["bytes"])}
    return learn


def fasttext(flags):
    def learn(problem):
        train, test, model = (os.path.join(problem.folder, name) for name in ("words", "words-test", "fasttext"))
        for path, texts, labels in zip((train, test), problem.texts, (problem.labels, problem.truth)):
            with open(path, "w", encoding="utf-8") as out:
                out.writelines("".join(f"__label__{label} " for label in some) + text + "\n" for text, some in zip(texts, labels))
        seconds, _ = run(["fasttext", "supervised", "-input", train, "-output", model, "-thread", str(THREADS), "-verbose", "0",
                          *flags.split()], problem.options.limit)
        _, printed = run(["fasttext", "predict", model + ".bin", test, "10"], problem.options.limit)
        best = [[int(word[9:]) for word in line.split()] for line in printed.splitlines()]
        return {"score": problem.measure(best), "seconds": seconds, "bytes": os.path.getsize(model + ".bin")}
    return learn


def by_hand(problem):
    """{name: command line} of the program."""
    if problem.dense:
        transforms = ["", "unit", "standard", *(["log,standard"] if problem.x.min() >= 0 else [])]
    else:
        transforms = ["unit", "tfidf,unit", *(["log,tfidf,unit"] if problem.x.max() > 1 else [])]
    found = {}

    def add(name, flags):
        found[name] = flags + (" --labels all" if problem.several else "")

    exact = "one-vs-all" if problem.several else "softmax"
    shared = ("--estimator sampled-softmax --set negatives=1000 --set sampler=frequency --set shared=yes --batch 128 "
              "--optimizer adagrad")
    for transform in transforms:
        after, flag = (f" {transform}", f" --transform {transform}") if transform else ("", "")
        for more in ["", *([" --word-ngrams 2", " --max-chars 4"] if problem.text and transform == "tfidf,unit" else [])]:
            for count in (3,) if more else (1, 3) if transform else ():
                add(f"{count} trees{after}{more}", f"--method label-tree --set trees={count}{flag}{more}")
            if problem.work <= EXACT_MOST:
                add(f"{exact}{after}{more}", f"--estimator {exact}{flag}{more}")
        if problem.work <= EXACT_MOST:
            for rate in (.1, .3, 1):
                add(f"{exact} adagrad {rate}{after}", f"--estimator {exact} --optimizer adagrad --eta {rate}{flag}")
            for ridge in (.01, 1) if problem.work < LBFGS_MOST else ():
                add(f"{exact} lbfgs {ridge}{after}", f"--estimator {exact} --optimizer lbfgs --ridge {ridge}{flag}")
        if problem.classes > 100 and not problem.several:
            add(f"implicit{after}", f"--estimator implicit{flag}")
        for rate in (.05, .2) if problem.classes > 1000 else ():
            add(f"shared draws {rate}{after}", f"{shared} --eta {rate}{flag}")
        add(f"means{after}", f"--method class-means{flag}")
        start = f"--estimator {exact} --optimizer adagrad" if problem.work <= EXACT_MOST else shared
        add(f"from means{after}", f"{start} --start means --eta .1{flag}")
    for rate in (.05, .1) if problem.classes > 100 else ():
        for epochs, factor in ((4, .562), (10, .794)):
            add(f"vectors {rate}, {epochs} epochs", f"{shared} --eta {rate} --set optimizer.initial=0.004 --hidden 256 "
                f"--epochs {epochs} --schedule step:{factor} --transform unit")
    return found


def learners(problem):
    """(name, function) of other programs."""
    steps = [[], ["standard"], ["unit"]] if problem.dense else [[], ["tfidf"]]
    logistic = (LOGISTIC_MOST, lambda p: p.work)
    svc = (SVC_MOST, lambda p: p.work)
    near = (NEAREST_MOST, lambda p: len(p.labels) * len(p.truth))
    for step in steps:
        for name, (most, of) in (("LogisticRegression", logistic), ("LinearSVC", svc), ("class means", (0, None)),
                                 ("nearest row", near), ("10 nearest rows", near)):
            yield " ".join([name, *step]), script("learners.py", name, *step, most=most, of=of)
    if os.environ.get("PECOS"):
        for step in ([], ["tfidf"]):
            yield " ".join(["XR-Linear", *step]), script("xr_linear.py", *step)
    if problem.text and shutil.which("fasttext"):
        loss = "ova" if problem.several and problem.classes < 2000 else "softmax" if problem.classes < 2000 else "hs"
        for grams in (1, 2):
            flags = f"-loss {loss} -epoch 25 -lr {.1 if loss == 'ova' else .5} -wordNgrams {grams}"
            yield f"fastText {flags}", fasttext(flags)


def tried(problem):
    """What every line and every other program reaches; what the file that keeps them has is not run again."""
    kept, limit = problem.options.kept.setdefault(problem.name, {}), problem.options.limit
    everyone = {name: lambda p, line=line: ours(p, line) for name, line in by_hand(problem).items()} | dict(learners(problem))
    if problem.options.useless:
        everyone = {name: learn for name, learn in everyone.items() if name.startswith("class means")}
    for name, learn in everyone.items():
        if "score" in kept.get(name, {}) or kept.get(name, {"limit": 0})["limit"] >= limit:
            continue
        try:
            kept[name] = learn(problem)
            print(f"    {problem.name}: {name}: {kept[name]['score']:.4f}, {kept[name]['seconds']:.1f} s", file=sys.stderr)
        except Skip as why:
            print(f"    {problem.name}: {name}: {why}", file=sys.stderr)
            if not str(why).startswith("it failed"):
                kept[name] = {"skipped": str(why), "limit": limit}
        problem.options.save()
    return {name: kept[name] for name in everyone if "score" in kept.get(name, {})}


def size(count):
    power = (len(str(count)) - 1) // 3
    return f"{count / 1000**power:.3g} {['', 'k', 'M', 'G'][power]}B"


def judged(problem, default, others, best):
    """What the default misses, of WORDS, and its regret, absolute, relative, and the standard error."""
    misses = {"failed"} if default is FAILED else set()
    top, mine, (prior, prior_loss) = others.get(best, default)["score"], default["score"], problem.prior()
    regret, error = max(0.0, top - mine), problem.error(mine, top)
    relative = regret / top if regret else 0.0
    if not problem.options.useless:
        if regret > ABSOLUTE or relative > RELATIVE:
            misses |= {"regret", "!!"} if regret > 2 * error else {"regret"}
        as_good = [said["seconds"] for said in others.values() if mine - said["score"] <= min(ABSOLUTE, RELATIVE * mine)]
        if default["seconds"] > max(SECONDS * THREADS, TIMES * min(as_good, default=math.inf)):
            misses.add("slow")
    if mine <= prior and top > prior + 2 * error:
        misses.add("useless")
    if not problem.several and not default["loss"] <= prior_loss + .01 and not math.isnan(prior_loss):
        misses.add("log-loss")
    return misses, regret, relative, error


def digest(program):
    """Of the program and its library: another build's default command is run again."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    files = [program, *(path for path in re.findall(r"=> (\S+)", listed) if "xsoftmax" in path)]
    return hashlib.sha1(b"".join(open(path, "rb").read() for path in files)).hexdigest()[:12]


def default_of(problem):
    """What the default command reaches, as the file keeps it, or FAILED."""
    kept, name = problem.options.kept.setdefault(problem.name, {}), f"default {problem.options.digest}"
    try:
        kept[name] = kept.get(name) or ours(problem, "", DEFAULT_MOST)
        problem.options.save()
        return kept[name]
    except Skip as why:
        print(f"{problem.name}: {why}", file=sys.stderr)
        return FAILED


def row_of(problem):
    """Prints a line of the table; returns what is missed."""
    default = default_of(problem)
    others = tried(problem)
    nearest = max((said["score"] for name, said in others.items() if "nearest row" in name), default=math.nan)
    others = {name: said for name, said in others.items() if "nearest row" not in name}
    best = max(others, key=lambda name: others[name]["score"], default="-")
    misses, regret, relative, error = judged(problem, default, others, best)
    if problem.options.useless and not misses:
        return misses
    prior, prior_loss = problem.prior()
    its, mark = others.get(best, FAILED), "!!" if "!!" in misses else "!"
    cells = [problem.name, f"{len(problem.labels):,} × {problem.x.shape[1]:,}{' dense' if problem.dense else ''} → "
             f"{problem.classes:,}", f"{default['method']} {default['transform']} {default['ngrams']}".strip(),
             f"{default['score']:.4f}" + (f" (P@1 {default['first']:.3f})" if problem.several else ""),
             "-" if problem.several else f"{default['loss']:.3f} ({prior_loss:.3f})", f"{prior:.4f}",
             f"{default['choice']:.1f} + {default['run']:.1f}; {default['seconds']:.1f}", size(default["bytes"]), best,
             f"{its['score']:.4f}", f"{its['seconds']:.1f}", size(its["bytes"]), f"{nearest:.4f}", f"{regret:.4f} ± {error:.4f}",
             f"{100 * relative:.1f} %", " ".join(sorted({mark if kind in ("regret", "!!") else kind for kind in misses}))]
    print("| " + " | ".join(cells) + " |", flush=True)
    return misses


def makers(options):
    """{name: function that makes the set}."""
    found, seed = {}, options.seed
    for folder in sorted(os.listdir(options.data)) if os.path.isdir(options.data) else []:
        path = os.path.join(options.data, folder)
        if os.path.isdir(path):
            found[f"data/{folder}"] = lambda path=path: sets.folder_set(path)
    if not found:
        print(f"{options.data} is absent: its sets are left out", file=sys.stderr)
    found.update(sets.debian())
    for kind, make, count in (("few", sets.few_rows, 10), ("mixed", sets.mixed_scales, 10),
                              ("any", sets.any_shape, options.useless)):
        for i in range(2 if options.quick and kind != "any" else count):
            found[f"{kind}/{seed}/{i}"] = lambda make=make, i=i, kind=kind: make(f"{kind}/{seed}/{i}", [seed, i])
    if options.useless:
        return {name: make for name, make in found.items() if name.startswith("any/")}
    return found


def main():
    parser = argparse.ArgumentParser(prog="bench/regret.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SETS")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "examples", "xsoftmax"))
    parser.add_argument("--data", default=os.environ.get("XSM_DATA", os.path.join(ROOT, "..", "shared", "data")))
    parser.add_argument("--quick", action="store_true", help="two made-up sets of a kind, others of up to 50,000 rows")
    parser.add_argument("--useless", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS", help="processor seconds of one run (300)")
    parser.add_argument("--keep", metavar="FILE", help="JSON: what was reached; what it has is not run again")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.kept = json.load(open(options.keep)) if options.keep and os.path.exists(options.keep) else {}

    def save():
        if options.keep:
            with open(options.keep + ".new", "w") as file:
                json.dump(options.kept, file, indent=1)
            os.replace(options.keep + ".new", options.keep)
    options.save, options.digest = save, digest(options.program)
    found = makers(options)
    chosen = {name: found[name] for wanted in options.sets or [""] for name in found if name.startswith(wanted)}
    if options.list:
        print("\n".join(chosen))
        return 0
    print(f"Seed {options.seed}; {THREADS} threads.\n\n| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    missed = []
    for name, make in chosen.items():
        try:
            made = make()
        except FileNotFoundError as absent:
            print(f"{name}: left out, {absent.filename} is absent", file=sys.stderr)
            continue
        if made is None or (options.quick and len(made.train.labels) > 50000):
            print(f"{name}: left out, " + ("no training and test rows" if made is None else "not quick"), file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="xsoftmax-regret.") as folder:
            missed.append(row_of(Problem(name, made, folder, options)))
    counts = [f"{sum(kind in some for some in missed)} {words}" for kind, words in WORDS.items()]
    print(f"\n{len(missed)} sets: " + ", ".join(counts) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main())
