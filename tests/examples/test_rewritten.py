"""Files that another program has saved again: unchanged they are read, and what it changed is found.

    test_rewritten.py MODEL_FILE.PY XSOFTMAX
"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
import model_file

xsoftmax = os.path.abspath(sys.argv[2])


def call(*arguments):
    return subprocess.run([xsoftmax, *arguments], capture_output=True, text=True)


def succeed(*arguments):
    done = call(*arguments)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("rows", "w") as file:
        for i in range(60):
            file.write(f"{i % 7} {i % 7}:1 {7 + i % 5}:0.5\n")
    train = ["train", "--estimator", "softmax", "--data", "rows", "--optimizer", "adagrad", "--epochs", "2"]
    succeed(*train, "--model", "model", "--checkpoint", "checkpoint")
    succeed("convert-model", "--model", "model", "--output", "narrow", "--type", "int8")
    succeed("index", "--model", "model", "--output", "index")
    succeed("convert", "--data", "rows", "--to", "cache", "--output", "cache")
    uses = {
        "model": lambda path: succeed("predict", "--model", path, "--data", "rows", "--top", "3"),
        "narrow": lambda path: succeed("predict", "--model", path, "--data", "rows", "--top", "3"),
        "index": lambda path: succeed("predict", "--model", "model", "--index-file", path, "--data", "rows"),
        "cache": lambda path: succeed("predict", "--model", "model", "--data", path),
        "checkpoint": lambda path: succeed(*train, "--resume", path, "--model", "again") and "",
    }
    for name, use in uses.items():
        def rewrite(way):
            model_file.rewrite(name, "other", way)

        wanted = use(name)
        rewrite("same")
        assert open(name, "rb").read() != open("other", "rb").read()
        if use("other") != wanted:
            sys.exit(f"{name}: other answers after it was saved again")
        ways = ["flip", "value", "entry", "rename", "shape"] + ["swap"] * (name == "checkpoint")
        for way in ways:
            rewrite(way)
            done = call("info", "other")
            if done.returncode != 1 or "the file is damaged" not in done.stderr:
                sys.exit(f"{name}, {way}: {done.returncode} {done.stderr}")
        print("ok", name)
