"""Where rows meet a model, at the command: each way in, with each kind of features, of files and caches that have the
same features, others in order, fewer, more, or another kind. Each row stands for a row of the model's own, so that a
command must answer as for these rows in the model's own form, or refuse, and say why.

  test_schema_walk.py XSOFTMAX [SERVE]
"""
import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

xsoftmax, *servers = [os.path.abspath(path) for path in sys.argv[1:]]
failures = []
HASH = 900000001

# Label, and how often there is each of two features.
OWN = [(0, 2, 1), (1, 0, 1), (0, 1, 0), (1, 1, 2), (0, 0, 3), (1, 1, 1), (1, 1, 0)]


def text(rows, new=""):
    return "".join(f"__label__{k} {'red ' * a}{'tea ' * b}{new}\n" for k, a, b in rows)


def table(rows, columns="x,y,label"):
    lines = [columns]
    for k, a, b in rows:
        known = {"label": k, "x": a, "y": b}
        lines.append(",".join(str(known.get(name, 7)) for name in columns.split(",")))
    return "\n".join(lines) + "\n"


def numbers(rows, first, second, new="", turned=False):
    lines = []
    for k, a, b in rows:
        pairs = [f"{j}:{v}" for j, v in ((first, a), (second, b)) if v]
        lines.append(" ".join([str(k)] + (pairs[::-1] if turned else pairs) + [new]).rstrip())
    return "\n".join(lines) + "\n"


def matrix(rows, columns=(1, 2)):
    """A file of NumPy, with the label behind the features."""
    shape = len(rows), len(columns) + 1
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    numbers = [[row[j] for j in columns] + [row[0]] for row in rows]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"".join(
        struct.pack(f"<{len(row)}f", *row) for row in numbers)


SAME, TURNED, FEWER = [0, 1, 2, 3, 4, 5, 6], [0, 6, 2, 3, 5, 2, 1], [2, 6, 2, 6]


def of(like):
    return [OWN[i] for i in like]


# Kind: how own rows are written; relations: the file, the own rows that it stands for, and what refuses it, as a file
# and as a cache. Of the last, what refuses a label tree of these rows as --shortlist; "" if nothing does.
KINDS = {
    "text": (text, {
        "same": (text(OWN), SAME, None, None, ""),
        "reordered": (text(of(TURNED)), TURNED, None, None, "the word 'tea'"),
        "fewer": (text(of(FEWER)), FEWER, None, None, "the word 'tea'"),
        "more": (text(OWN, "new"), SAME, None, None, "the word 'new'"),
        "other": (table(OWN), None, "text", "the column 'x'", None)}),
    "columns": (table, {
        "same": (table(OWN), SAME, None, None, ""),
        "reordered": (table(OWN, "y,label,x"), SAME, None, None, None),
        "fewer": (table(OWN, "x,label"), None, "column 'y'", "column 'y'", None),
        "more": (table(OWN, "id,y,label,x"), SAME, None, None, None),
        "other": (numbers(OWN, 1, 2), None, "numbers", "number 1", None)}),
    "from 1": (lambda rows: numbers(rows, 1, 2), {
        "same": (numbers(OWN, 1, 2), SAME, None, None, ""),
        "reordered": (numbers(of(TURNED), 1, 2, turned=True), TURNED, None, None, ""),
        "fewer": (numbers(of(FEWER), 1, 2), FEWER, None, None, "features"),
        "more": (numbers(OWN, 1, 2, "5:1"), SAME, None, None, "features"),
        "other": (numbers(OWN, 0, 1), None, "start at 1", "a feature of number 0", "from 0")}),
    "from 0": (lambda rows: numbers(rows, 0, 1), {
        "same": (numbers(OWN, 0, 1), SAME, None, None, ""),
        "reordered": (numbers(of(TURNED), 0, 1, turned=True), TURNED, None, None, ""),
        "fewer": (numbers(of(FEWER), 0, 1), FEWER, None, None, "features"),
        "more": (numbers(OWN, 0, 1, "5:1"), SAME, None, None, "features"),
        "other": (table(OWN), None, "columns", "column 'x'", None)}),
    "hashed": (lambda rows: numbers(rows, 7, HASH), {
        "same": (numbers(OWN, 7, HASH), SAME, None, None, ""),
        "reordered": (numbers(of(TURNED), 7, HASH, turned=True), TURNED, None, None, ""),
        "fewer": (numbers(of([1, 4, 1]), 7, HASH), [1, 4, 1], None, None, "number 7"),
        "more": (numbers(OWN, 7, HASH, f"{HASH + 1}:2"), SAME, None, None, f"number {HASH + 1}"),
        "other": (table(OWN), None, "columns", "column 'x'", None)}),
    "matrix": (matrix, {
        "same": (matrix(OWN), SAME, None, None, None),
        "reordered": (matrix(of(TURNED)), TURNED, None, None, None),
        "fewer": (matrix(OWN, (1,)), None, "features", "features", None),
        "more": (matrix(OWN, (1, 2, 2)), None, "features", "features", None)}),
}
GO_ON = ["--estimator", "softmax", "--optimizer", "sgd", "--eta", "0.5", "--batch", "2", "--order", "file",
         "--threads", "1"]
TRAIN = GO_ON + ["--transform", "unit"]


def is_matrix():
    with open("own", "rb") as file:
        return file.read(1) == b"\x93"


def run(*arguments):
    reads_cache = arguments[0] == "predict" and arguments[-1] == "liked"
    if is_matrix() and arguments[0] != "index" and not reads_cache:
        arguments += "--label-column=-1",
    done = subprocess.run([xsoftmax, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def good(*arguments):
    code, out, said = run(*arguments)
    if code:
        sys.exit(f"{' '.join(arguments)}: {said}")
    return out


def figures(value):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {k: figures(v) for k, v in value.items()
                if "seconds" not in k and "bytes" not in k and k != "features_left_out"}
    return value


def told(out):
    """What a report says of the rows."""
    if out.startswith("{"):
        return figures(json.loads(out))
    return [line for line in out.splitlines() if line.startswith(("train  ", "test  "))] or out


def by_model(command):
    """A command that writes a model: its answers to the own rows."""
    def way(data):
        code, _, said = command(data)
        return (code, good("predict", "--model", "out", "--data", "own"), said) if code == 0 else (code, "", said)
    return way


def report(*arguments):
    return lambda data: run(*[data if a is None else a for a in arguments])


def like_model(data):
    code, _, said = run("convert", "--data", data, "--like", "model", "--to", "cache", "--output", "liked")
    return (code, good("predict", "--model", "model", "--data", "liked"), said) if code == 0 else (code, "", said)


WAYS = {
    "predict": report("predict", "--model", "model", "--data", None),
    "index-file": report("predict", "--model", "model", "--index-file", "index", "--data", None),
    "evaluate": report("evaluate", "--model", "model", "--json", "--data", None),
    "known": report("evaluate", "--model", "model", "--json", "--ranks", "--data", "own", "--known", None),
    "calibrate": by_model(report("calibrate", "--model", "model", "--output", "out", "--data", None)),
    "--calibrate": by_model(report("train", "--data", "own", "--model", "out", *TRAIN, "--calibrate", None)),
    "--test": report("train", "--data", "own", "--model", "out", *TRAIN, "--test", None),
    "prune": report("prune", "--keep", "1", "--json", "--model", "model", "--output", "out", "--test", None),
    "convert-model": report("convert-model", "--type", "int8", "--json", "--model", "model", "--output", "out", "--test", None),
    "convert --like": like_model,
}


def check(what, answer, right, refused):
    code, out, said = answer
    if refused and (code != 1 or refused not in said):
        failures.append(f"{what}: {code}, '{said.strip()}' lacks '{refused}'")
    elif not refused and (code or right[0] or told(out) != told(right[1])):
        failures.append(f"{what}: {code}, {told(out)}, {said.strip()} instead of {told(right[1])}, {right[2].strip()}")


def warm_start(kind):
    options = ["--new-words", "no"] if kind == "text" else []
    return by_model(report("train", "--warm-start", "model", "--model", "out", *GO_ON, *options, "--data", None))


def check_own(what, data, relation, tree):
    """What must be of the model's own rows: a run that resumes, and a label tree as --shortlist."""
    ways = ["--model", "out", *TRAIN, "--epochs", "2"]
    code, _, said = run("train", "--data", data, "--resume", "checkpoint", *ways)
    if (code == 0) != (relation == "same"):
        failures.append(f"resume {what}: {code}, {said}")
    if tree is not None:
        good("train", "--data", data, "--method", "label-tree", "--transform", "unit", "--model", "tree")
        answer = run("predict", "--model", "model", "--shortlist", "tree", "--data", "own")
        check(f"shortlist {what}", answer, answer, tree)


@contextlib.contextmanager
def serving():
    """Asks a server, if there is one, for the answers to lines without labels, as `predict` writes them."""
    if not servers:
        yield None
        return
    server = subprocess.Popen([servers[0], "model", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    url = server.stdout.readline().strip() + "/predict"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(content):
        rows = [line.split(" ", 1)[1] for line in content.splitlines()]
        try:
            with opener.open(url, json.dumps({"rows": rows}).encode(), 60) as answer:
                return json.load(answer)["rows"]
        except urllib.error.HTTPError as error:
            return error.code
    try:
        yield ask
    finally:
        server.terminate()
        server.wait(60)


def check_served(what, answer, right):
    """The same classes, and scores but for what the digits of both leave out."""
    if right is None:
        if answer != 400:
            failures.append(f"served {what}: {answer} instead of 400")
        return
    wanted = [[one.rsplit(":", 1) for one in line.split("\t")] for line in right.splitlines()]
    same = isinstance(answer, list) and len(answer) == len(wanted) and all(
        len(a) == len(b) and all(str(x.get("name", x.get("label"))) == label and
                                 abs(x["score"] - float(score)) <= 1e-5 * abs(float(score))
                                 for x, (label, score) in zip(a, b)) for a, b in zip(answer, wanted))
    if not same:
        failures.append(f"served {what}: {answer} instead of {wanted}")


def write(path, content):
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def walk(kind):
    form, relations = KINDS[kind]
    write("own", form(OWN))
    good("train", "--data", "own", "--model", "model", "--checkpoint", "checkpoint", *TRAIN, "--epochs", "2")
    good("index", "--model", "model", "--output", "index")
    good("train", "--data", "own", "--model", "other", *TRAIN, "--epochs", "1")
    if run("predict", "--model", "other", "--index-file", "index", "--data", "own")[0] != 1:
        failures.append(f"{kind}: an index of another model of the same shape is taken")
    answers = {}
    for relation, (content, like, refused, cache_refused, tree) in relations.items():
        write("file", content)
        write("right", form(of(like or SAME)))
        good("convert", "--data", "file", "--to", "cache", "--output", "cache")
        ways = dict(WAYS)
        if relation != "more" or kind == "text":
            ways["--warm-start"] = warm_start(kind)
        for name, way in ways.items():
            key = name, tuple(like or SAME)
            if like and key not in answers:
                answers[key] = way("right")
            right = answers.get(key)
            check(f"{kind}, {relation}, {name}, file", way("file"), right, refused)
            if kind != "matrix":  # whose option for labels is none of caches
                check(f"{kind}, {relation}, {name}, cache", way("cache"), right, cache_refused)
        check_own(f"{kind}, {relation}", "file", relation, tree)
    if kind not in ("columns", "matrix"):
        with serving() as ask:
            for relation, (content, like, *_) in relations.items():
                if ask and (like or (kind, relation) == ("from 1", "other")):
                    right = answers["predict", tuple(like)][1] if like else None
                    check_served(f"{kind}, {relation}", ask(content), right)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    for name in KINDS:
        walk(name)
for failure in failures:
    print("FAILED", failure)
sys.exit(len(failures) > 0)
