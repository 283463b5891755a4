"""Prepares what bench/serve.sh sends: two models of a set, a thousand requests, and what `xsoftmax predict` says of them.

    serve.py PROGRAM DATA SET FOLDER     writes FOLDER/a.model, b.model and rows.lua
"""
import json
import subprocess
import sys

from rows import Rows
from text import newsgroups

ROWS = 1000
TOP = 5


def bibtex(folder):
    """Lines of LIBSVM, whose features begin at 0 in these files."""
    lines = []
    for part in ("train", "test"):
        rows = Rows(f"{folder}/bibtex/bibtex_{part}.txt.gz")
        lines.append([f"{','.join(map(str, labels))} {' '.join(f'{j}:{v:g}' for j, v in rows.pairs(i))}\n"
                      for i, labels in enumerate(rows.labels)])
    return lines[0], lines[1]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def predictions(program, model, data, text):
    """For each row its classes: name, score, probability."""
    common = [program, "predict", "--model", model, "--data", data, "--format", "text" if text else "libsvm", "--top", str(TOP)]
    result = []
    for scores, probabilities in zip(run(*common).splitlines(), run(*common, "--probabilities").splitlines(), strict=True):
        pairs = zip(scores.split("\t"), probabilities.split("\t"), strict=True)
        result.append([(*s.rsplit(":", 1), p.rsplit(":", 1)[1]) for s, p in pairs])
    return result


def lua(classes):
    return "{" + ",".join(f'{{"{name}",{score},{probability}}}' for name, score, probability in classes) + "}"


def main(program, folder, name, out):
    text = name == "20news"
    train, test = newsgroups(folder)[:2] if text else bibtex(folder)
    test = test[:ROWS]
    with open(f"{out}/train", "w") as file:
        file.writelines(train)
    # Labels are no part of a request.
    requests = [line.split(" ", 1)[1].strip() for line in test]
    with open(f"{out}/rows", "w") as file:
        file.writelines(f"{'' if text else ' '}{line}\n" for line in requests)
    for model, seed in (("a", 1), ("b", 2)):
        run(program, "train", "--data", f"{out}/train", "--format", "text" if text else "libsvm", "--estimator",
            "softmax" if text else "one-vs-all", "--transform", "tfidf,unit" if text else "unit", "--eta", "1", "--epochs",
            str(2 * seed), "--seed", str(seed), "--evaluate-train", "no", "--model", f"{out}/{model}.model")
    wanted = [predictions(program, f"{out}/{model}.model", f"{out}/rows", text) for model in "ab"]
    with open(f"{out}/rows.lua", "w") as file:
        file.write("return {\n")
        for number, (line, a, b) in enumerate(zip(requests, *wanted, strict=True), 1):
            body = json.dumps({"row": line, "id": number})
            file.write(f"{{body = {json.dumps(body)}, a = {lua(a)}, b = {lua(b)}}},\n")
        file.write("}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
