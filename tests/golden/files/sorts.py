"""Files of every kind and sort: what test_formats.py and release_set.py make of rows that are made up."""
import ctypes
import os
import signal
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from model_file import raw_contents  # noqa: E402

SAMPLERS = ("uniform", "frequency", "recent", "midx", "tree", "label-tree")
FOLLOWERS = {"recent": {"labels": "100"}, "midx": {"words": "3"}}  # with options
FASTTEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fasttext")
SOFTMAX = ["--estimator", "softmax", "--eta", "0.5", "--epochs", "3"]
CHECKPOINT = ["train", "--data", "svm", "--optimizer", "sgd", "--ridge", "3", *SOFTMAX, "--transform", "none"]
TREE_CHECKPOINT = ["train", "--data", "text", "--method", "label-tree", "--seed", "3"]
BEGUN = [*TREE_CHECKPOINT, "--set", "leaf=2", "--set", "arity=2", "--set", "negatives=2"]  # stopped within its tree


def steps(data, estimator, *flags):
    return ["train", "--data", data, "--estimator", estimator, "--eta", "0.1", *flags]


# Runs of two epochs, which go on for a third.
STATES = {"adagrad.state": steps("svm", "sampled-softmax", "--set", "sampler=recent", "--set", "sampler.labels=100",
                                 "--optimizer", "adagrad", "--hidden", "3"),
          "row-adagrad.state": steps("text", "sampled-softmax", "--optimizer", "row-adagrad", "--hidden", "3"),
          "search.state": steps("svm", "mips", "--optimizer", "row-adagrad"), "visits.state": steps("svm", "augment-reduce"),
          "numbers.state": steps("svm", "implicit"), "lengths.state": steps("svm", "umax", "--ridge", "3")}
CACHES = {"named.cache": "text", "table.cache": "csv", "numbered.cache": "hashed", "pruned.cache": "words",
          "transformed.cache": "transformed.cache"}  # and rows to predict
xsoftmax = os.path.abspath(sys.argv[1])


def run(*arguments):
    done = subprocess.run([xsoftmax, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def predicted(name, data, classes, trees, *flags):
    """What the command says of all classes of each row: {label: score}."""
    beam = ["--beam", str(classes)] if trees else []
    said = run("predict", "--model", name, "--data", data, "--top", str(classes), *beam, *flags).splitlines()
    return [{k: float(v) for k, v in (entry.rsplit(":", 1) for entry in line.split("\t"))} for line in said]


def made_up():
    """Rows of text, of sparse numbers from 1, of hashed numbers, of classes, and of a table; 7 classes."""
    rng = np.random.default_rng(20261128)
    labels = rng.integers(0, 7, 60)
    words = ["ant", "bée", "cat", "dögs", "eel", "fox", "gnu", "hen", "ibis", "jay", "kea", "lynx"]
    with open("text", "w", encoding="utf-8") as text, open("svm", "w", encoding="utf-8") as svm, \
            open("hashed", "w", encoding="utf-8") as hashed, open("csv", "w", encoding="utf-8") as csv, \
            open("numbers", "w", encoding="utf-8") as numbers, open("alike", "w", encoding="utf-8") as alike:
        csv.write("label,a,b,c,d\n")
        for k in labels:
            some = sorted({int(k), *(int(j) for j in rng.integers(0, len(words), 4))})
            values = {j: round(float(rng.normal() + (2 if j == k else 1)), 3) for j in some}
            text.write(f"__label__c{k} " + " ".join(words[j] for j in rng.permutation(some)) + "\n")
            svm.write(f"{3 * k} " + " ".join(f"{j + 1}:{x}" for j, x in values.items()) + "\n")
            alike.write(f"{k} {k // 2}:1 {k // 2 + 3}:0.5\n")
            hashed.write(f"{k} " + " ".join(f"{j * 1000003 + 70000}:{x}" for j, x in values.items()) + "\n")
            cells = [f"{float(rng.normal() * 100 ** i + k):.4f}" for i in range(4)]
            csv.write(f"{k}," + ",".join(cells) + "\n")
            numbers.write(",".join(cells) + "\n")


def binding():
    """The library from Python; None without it, as where it has a sanitizer."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/python"))
    import xsoftmax as python  # pylint: disable=import-outside-toplevel
    return python.library() if "XSOFTMAX_LIBRARY" in os.environ else None


def follow(xsm, rows, sampler, options):
    """Lets a sampler follow a training."""
    for option in options.items():
        xsm.sampler_set(sampler, *option)
    run_options = xsm.struct("trainer_options", epochs=3, eta=0.1, batch=8)
    with xsm.make("model_new_linear", None, 12, 7, xsm.struct("model_options", bias=1)) as model, \
            xsm.make("estimator_new", None, "sampled-softmax") as estimator, xsm.make("optimizer_new", None, "sgd") as optimizer:
        xsm.estimator_set_sampler(estimator, sampler)
        with xsm.make("trainer_new", None, model, rows, estimator, optimizer, run_options) as trainer:
            xsm.trainer_run(trainer)


def make_samplers(data):
    xsm = binding()
    with xsm.make("dataset_read", None, data, None, None) as rows:
        for name in SAMPLERS:
            with xsm.make("sampler_new", None, name) as sampler:
                if name in FOLLOWERS:
                    follow(xsm, rows, sampler, FOLLOWERS[name])
                else:
                    xsm.sampler_bind(sampler, rows)
                xsm.sampler_save(sampler, f"{name}.sampler", None)


def sampler_logs(path, data, count):
    """log q(k|x) of each class for some rows, by a saved sampler."""
    xsm = binding()
    with xsm.make("sampler_load", None, path, None, None) as sampler, xsm.make("dataset_read", None, data, None, None) as rows:
        info, batch = xsm.struct("sampler_info"), xsm.struct("batch")
        xsm.sampler_get_info(sampler, ctypes.byref(info))
        xsm.batch_set_range(ctypes.byref(batch), rows, 0, count)
        logs = (ctypes.c_float * (count * info.classes))()
        xsm.sampler_log_probabilities(sampler, ctypes.byref(batch), 0, info.classes, logs)
    return [[round(x, 6) for x in logs[i * info.classes:(i + 1) * info.classes]] for i in range(count)]


def make_states():
    for name, flags in STATES.items():
        run(*flags, "--epochs", "2", "--checkpoint", name, "--no-evaluate")
    run(*TREE_CHECKPOINT, "--checkpoint", "tree.state", "--checkpoint-every", "0.0001", "--model", "other.m")
    for fifth in range(1, 400):  # of a millisecond
        with subprocess.Popen([xsoftmax, *BEGUN, "--checkpoint", "begun.state", "--checkpoint-every", "0.0001", "--model",
                               "other.m", "--no-evaluate"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as fit:
            time.sleep(fifth / 5000)
            fit.send_signal(signal.SIGINT)
        tensors = raw_contents("begun.state")[1] if os.path.exists("begun.state") else {}
        if "state.start_node" in tensors and tensors["state.kept"][2]:
            return
    raise SystemExit("no fit was stopped within its tree")


def make_caches():
    """Of sparse rows, with names and weights of rows and labels, of a table, of hashed numbers, of a pruned dictionary."""
    with open("text", encoding="utf-8") as text, open("weighed", "w", encoding="utf-8") as weighed, \
            open("weights", "w", encoding="utf-8") as weights:
        for i, line in enumerate(text):
            label, words = line.split(" ", 1)
            weighed.write(f"{label}:{0.5 + i % 2} {words}")
            weights.write(f"{1 + i % 3}\n")
    for name, data, *flags in (("rows", "svm"), ("named", "weighed", "--label-weights", "--weights", "weights"),
                               ("table", "csv"), ("numbered", "hashed"), ("pruned", "words", "--like", "pruned.ftz.m")):
        run("convert", "--data", data, "--output", f"{name}.cache", "--to", "cache", *flags)


def make_transformed():
    xsm = binding()
    with xsm.make("dataset_read", None, "svm", None, None) as rows, xsm.make("model_load", None, "steps.m", None, None) as model:
        xsm.model_transform(model, rows)
        xsm.dataset_write(rows, "transformed.cache", xsm.struct("write_options", format=xsm.FORMAT_CACHE))


def make_files(made):
    """Makes all in this folder, and calls made(model, rows to predict, the same without labels) for each model."""
    made_up()
    with open(os.path.join(FASTTEXT, "text.txt"), encoding="utf-8") as theirs, open("words", "w", encoding="utf-8") as own:
        own.write(theirs.read())

    def trained(name, data, *flags, rows=None):
        run("train", "--data", data, "--model", name, "--seed", "3", *flags)
        made(name, data, rows)

    trained("svm.m", "svm", *SOFTMAX, "--transform", "none")
    trained("steps.m", "svm", *SOFTMAX, "--transform", "log,tfidf,standard,unit,products=3,unit", "--bias", "yes")
    trained("hashed.m", "hashed", *SOFTMAX, "--transform", "unit,truncate=9")
    trained("table.m", "csv", *SOFTMAX, "--transform", "standard", "--bias", "yes", rows="numbers")
    trained("text.m", "text", *SOFTMAX, "--transform", "tfidf,unit", "--word-ngrams", "3", "--min-chars", "1",
            "--max-chars", "3", "--buckets", "50")
    run("train", "--data", "text", "--warm-start", "text.m", "--model", "grown.m", *SOFTMAX)
    made("grown.m", "text")
    trained("sigmoid.m", "text", "--estimator", "one-vs-all", "--eta", "0.5", "--epochs", "3")
    trained("negative.m", "svm", "--estimator", "negative-sampling", "--set", "sampler=frequency", "--eta", "0.1")
    trained("tree.m", "svm", "--estimator", "negative-sampling", "--set", "sampler=tree", "--eta", "0.1")
    trained("hierarchical.m", "svm", "--estimator", "hierarchical", "--eta", "0.1")
    trained("tied.m", "alike", "--hidden", "4", "--tied", "--estimator", "sampled-softmax", "--eta", "0.3")
    trained("distance.m", "svm", *SOFTMAX, "--geometry", "euclidean")
    for i, layer in enumerate((["--activation", "relu", "--pool", "mean"], ["--activation", "tanh"], ["--pairs", "3"])):
        trained(f"embedding{i}.m", "text", "--hidden", "6", "--estimator", "sampled-softmax", "--eta", "0.3", *layer)
    for name in sorted(os.listdir(FASTTEXT)):
        if not name.endswith(".txt"):
            run("import", "--model", os.path.join(FASTTEXT, name), "--output", f"{name}.m")
            made(f"{name}.m", "words")
    for link in ("softmax", "sigmoid", "normalised", "hinge"):
        trained(f"trees-{link}.m", "text", "--method", "label-tree", "--set", f"link={link}", "--set", "trees=2", "--set",
                "leaf=2")
    run("prune", "--model", "svm.m", "--output", "pruned.m", "--keep", "5")
    made("pruned.m", "svm")
    for dtype in ("bfloat16", "int8"):
        for name, data in (("svm", "svm"), ("embedding1", "text"), ("pruned", "svm"), ("trees-sigmoid", "text")):
            run("convert-model", "--model", f"{name}.m", "--output", f"{name}-{dtype}.m", "--type", dtype)
            made(f"{name}-{dtype}.m", data)
    run("calibrate", "--model", "svm.m", "--output", "calibrated.m", "--data", "svm")
    made("calibrated.m", "svm")
    run(*CHECKPOINT, "--model", "again.m", "--checkpoint", "state", "--checkpoint-every", "0.0001")
    made("state", "svm")
    run("calibrate", "--model", "sigmoid.m", "--output", "labels.m", "--data", "text")
    made("labels.m", "text")
    make_caches()
    run("index", "--model", "svm.m", "--output", "svm.index")
