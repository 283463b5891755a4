"""bench/compare: its scores by hand, and one run over the library's estimators on a small problem."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

root, program = sys.argv[1], sys.argv[2]
try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: bench/compare needs numpy")
    sys.exit(77)
sys.path.insert(0, os.path.join(root, "bench", "compare"))
import multilabel  # noqa: E402
import peers  # noqa: E402
from multilabel import Tally as Several  # noqa: E402
from rows import Rows, Tally  # noqa: E402
import words  # noqa: E402


def close(a, b):
    return abs(a - b) < 1e-9


def tally():
    # Three rows: right, second, and a label that was never seen, which counts as wrong and has no log-loss.
    t = Tally({1, 2})
    t.add(1, [1, 2], 0.5)
    t.add(2, [1, 2], 0.25)
    t.add(7, [1, 2], None)
    result = t.result()
    assert close(result["p1"], 1 / 3) and close(result["p5"], 2 / 3 / 5), result
    assert close(result["log_loss"], (0.6931471805599453 + 1.3862943611198906) / 2), result
    t.add(1, [1], None)  # a program that does not say
    assert t.result()["log_loss"] is None


def several():
    # Labels 1 and 2 of weights 2 and 4, ranked 2, 0, 1.
    t = Several(numpy.array([1.0, 2.0, 4.0]))
    t.add([1, 2], [2, 0, 1])
    result = t.result()
    second, third = 0.6309297535714575, 0.5  # 1/log2(3), 1/log2(4)
    assert all(map(close, result["precision"], [1, 2 / 3, 2 / 5])), result
    assert all(map(close, result["ndcg"], [1, (1 + third) / (1 + second), (1 + third) / (1 + second)])), result
    assert all(map(close, result["psp"], [1, 1, 1])), result
    t.add([1], [0])
    assert all(map(close, t.result()["psp"], [4 / 6, 6 / 8, 6 / 8])), t.result()


def halves(folder):
    # Eight settings on 64 rows: "1" is best where there are 16, "7" where there are 8; what fails is left out.
    tried = []

    def run(problem, s):
        tried.append((s, len(problem.keep)))
        if s == "5":
            raise multilabel.Late("too slow")
        return {"precision": [int(s) if s != "1" or len(problem.keep) < 16 else 100]}

    write(os.path.join(folder, "h.txt"), [("0", [(0, 1)])] * 64)
    rows = Rows(os.path.join(folder, "h.txt"))
    fold = multilabel.Problem(folder, rows, list(range(64)), rows, [0], 1, 1)
    settings = [str(i) for i in range(8)]
    assert multilabel.choose(run, settings, [fold], True) == "7"
    assert [n for _, n in tried] == [8] * 8 + [16] * 4 + [32] * 2, tried
    assert {s for s, n in tried if n == 16} == {"3", "4", "6", "7"}, tried
    assert multilabel.choose(run, ["1", "4", "6", "7"], [fold], True) == "1"
    assert multilabel.choose(run, ["4", "1"], [fold], False) == "1"
    for alone in (True, False):  # alike settings take as long; of others some may do
        try:
            multilabel.choose(run, ["5", "5"], [fold], not alone)
            raise AssertionError("what is too slow was chosen")
        except multilabel.Skip as reason:
            assert str(reason) == "too slow"
    held = multilabel.thinned(list(range(2 * multilabel.HELD_ROWS + 1)))
    assert len(held) <= multilabel.HELD_ROWS and held[:2] == [0, 3], held[:2]
    assert multilabel.thinned([1, 2]) == [1, 2] and multilabel.thinned([]) == []


def several_run(folder):
    """The library's measures and ours of the same problem, which both solve perfectly but for labels never seen."""
    draw = random.Random(5)
    rows = []
    for _ in range(300):
        labels = sorted(draw.sample(range(4), draw.randrange(1, 4)))
        rows.append((",".join(map(str, labels)), [(l, 1) for l in labels]))
    for part in ("train", "test"):
        write(os.path.join(folder, f"s_{part}.txt"), rows)
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "multilabel.py"), "--program", program,
                           "--packages", "none", "--folder", "none", folder, "--json", "--only", "xsoftmax,liblinear"],
                          stdout=subprocess.PIPE, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [s["method"] for s in said] == ["xsoftmax", "xsoftmax default", "xsoftmax label tree",
                                           "xsoftmax 3 label trees", "liblinear one-vs-rest"], said
    mean = sum(len(r[0].split(",")) for r in rows) / len(rows)
    for s in said:
        assert s["skipped"] in (None, "not installed"), s
        if s["skipped"] is None:  # of the best, the one with the largest weight need not be first
            assert s["seconds"] >= 0 and close(s["precision"][0], 1) and close(s["precision"][2], mean / 5), s
            assert all(map(close, s["ndcg"] + s["psp"][1:], [1] * 5)), s
            assert s["method"].startswith("liblinear") or (s["bytes"] > 4 * 4 * 6 and s["query_ms"] >= 0), s
    # Validation rows are what is chosen by.
    write(os.path.join(folder, "s_valid.txt"), rows[:20])
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "multilabel.py"), "--program", program,
                           "--packages", "none", "--folder", "none", folder, "--only", "xsoftmax default"],
                          stdout=subprocess.PIPE, text=True, check=True)
    assert "chosen on validation rows" in done.stdout, done.stdout
    # Those that have no label choose nothing: training rows held back do.
    write(os.path.join(folder, "s_valid.txt"), [("", features) for _, features in rows[:20]])
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "multilabel.py"), "--program", program,
                           "--packages", "none", "--folder", "none", folder, "--only", "xsoftmax default"],
                          stdout=subprocess.PIPE, text=True, check=True)
    assert "chosen on 5 tenths of the training rows" in done.stdout and "xsoftmax default" in done.stdout, done.stdout
    write(os.path.join(folder, "s_test.txt"), [("", [(0, 1)])] * 5)
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "multilabel.py"), "--program", program,
                           "--packages", "none", "--folder", "none", folder], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "s_test.txt: no row has a label" in done.stderr, done.stderr


def word_runs(folder):
    """Losses out of fastText's progress, and a table by hand."""
    # Means since the start: 4 in the first half, then 2 in the second.
    said = "\r".join(f"Progress: {p:5.1f}% words/sec/thread:   10 lr:  0.01 avg.loss: {m:9.6f} ETA: 0h 0m 0s"
                     for p, m in [(20, 4), (49.9, 4), (50, 4), (80, 3.25), (100, 3)])
    assert all(map(close, words.their_losses(said, 2), [4, 2])), words.their_losses(said, 2)
    assert words.their_losses("", 2) == []
    r = words.Runs(pathlib.Path(folder))
    assert r.pairs() == 0 and list(r.rows(10)) == []
    for seed, (ours, theirs) in enumerate([((1, .5), (4, .25)), ((3, .75), (4, .25)), ((9, 9), None)]):
        for name, run in ((words.OURS, ours), (words.THEIRS, theirs)):
            if run:
                r.add(name, seed, {"seconds": run[0], "set": run[1]}, [2.0, 1.0 + seed])
    seconds, rate, score = r.rows(10)  # the third pair is not complete
    assert seconds[:2] == ("seconds", 2) and close(seconds[5], 0.5) and seconds[6] is None, seconds
    assert rate[:2] == ("words/second", 5) and close(rate[3], 2.5) and close(rate[5], 2), rate
    assert close(score[1], .625) and close(score[2] ** 2, 1 / 32) and close(score[6], .375 / (1 / 64) ** .5), score
    assert r.mean_losses(words.THEIRS) == [2.0, 1.5]
    assert len((pathlib.Path(folder) / "runs.csv").read_text().splitlines()) == 6


def limits():
    """A program that takes too long is told from one that fails."""
    busy = [sys.executable, "-c", "while True: pass"]
    for command, kind, said in ((busy, peers.Late, "stopped after 1 s"), (["false"], peers.Skip, "it failed"),
                                (["sh", "-c", "echo a >&2; echo why >&2; exit 3"], peers.Skip, "it failed: why")):
        try:
            peers.run(command, 1)
            raise AssertionError("no reason is given")
        except peers.Skip as reason:
            assert type(reason) is kind and str(reason).startswith(said), reason
    seconds, printed = peers.run(["echo", "fine"], 1)
    assert printed == "fine\n" and 0 <= seconds < 1, (seconds, printed)


def write(path, rows):
    with open(path, "w") as out:
        out.write(f"{len(rows)} 6 4\n")
        for label, features in rows:
            out.write(f"{label} {' '.join(f'{i}:{v}' for i, v in features)}\n")


def run(folder):
    draw = random.Random(7)
    rows = []
    for _ in range(200):
        label = draw.randrange(3)
        rows.append((label, [(label, 3), (3 + draw.randrange(3), 4)]))
    train, test = os.path.join(folder, "t_train.txt"), os.path.join(folder, "t_test.txt")
    write(train, rows)
    write(test, rows[:30] + [(3, [(0, 1)])] * 10)  # ten rows of a label that no training row has
    read = Rows(train)
    read.unit()
    assert all(close(sum(v * v for _, v in read.pairs(i)), 1) for i in range(len(rows)))
    assert sorted(v for _, v in read.pairs(0, raw=True)) == [3, 4]
    done = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "compare.py"), "--program", program,
                           folder, "--json", "--threads", "1", "--only",
                           "xsoftmax/softmax,xsoftmax/ove,xsoftmax/default"],
                          stdout=subprocess.PIPE, text=True, check=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [s["method"] for s in said] == ["xsoftmax/default", "xsoftmax/softmax", "xsoftmax/ove"], said
    for s in said:
        assert s["skipped"] is None and close(s["p1"], 30 / 40) and s["processor_seconds"] > 0, s
        assert 0 <= s["train_log_loss"] < 0.5 and 0 <= s["test_log_loss"] < 0.5 and s["seconds"] >= 0, s
        assert (s["chosen"] is None) == (s["method"] != "xsoftmax/default"), s
        assert s["bytes"] > 4 * 3 * 6 and s["query_ms"] >= 0, s
    # Peers get the training rows in another order than the file's, each with its own label.
    work = peers.Work(folder, read, read, 600, 1)
    assert sorted(work.keep) == list(range(len(rows))) != work.keep, work.keep
    assert work.labels == [rows[i][0] for i in work.keep] and work.test_keep == sorted(work.keep)
    # XR-Linear where there is a checkout.
    try:
        result = peers.PEERS["pecos/xr-linear"](work)
        assert result["test"]["p1"] == 1 and result["bytes"] > 0 and result["query_ms"] >= 0, result
    except peers.Skip as reason:
        assert "PECOS" not in os.environ and str(reason) == "$PECOS names no checkout", reason
    failed = subprocess.run([sys.executable, os.path.join(root, "bench", "compare", "compare.py"), "--program", program,
                             os.path.join(folder, "none")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert failed.returncode and not failed.stdout and "is no folder" in failed.stderr, failed


tally()
several()
limits()
with tempfile.TemporaryDirectory() as place:
    word_runs(place)
with tempfile.TemporaryDirectory() as place:
    run(place)
with tempfile.TemporaryDirectory() as place:
    halves(place)
with tempfile.TemporaryDirectory() as place:
    several_run(place)
