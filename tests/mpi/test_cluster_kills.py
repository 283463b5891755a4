#!/usr/bin/env python3
"""Ranks that are killed (SIGKILL) at random moments:

test_cluster_kills.py openmpi|mpich LAUNCHER COMMAND-OF-RANKS COMMAND [--trials N] [--epochs N] [--seed S]

Each trial trains on two or three ranks, with a checkpoint after every epoch, and kills a random one at a random moment.
Required is then that no rank is left after 30 seconds (Open MPI's mpirun itself can hang when a rank is killed while it
starts; that is counted, and the launcher killed); that checkpoint and model, where they are there,
are readable; and that the run goes on from the checkpoint, on one to three ranks, killed again in a third of the cases,
to the bytes of one process that was never interrupted.

Then each other command that writes a file is killed once, which leaves the old file or the whole new one, and once a rank
of it is stopped (SIGSTOP) for a while: it ends with the bytes of one process.
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = 9000
METHODS = [
    ["--data", "single.txt", "--estimator", "sampled-softmax", "--set", "negatives=9", "--batch", "300"],
    ["--data", "several.txt", "--estimator", "one-vs-all-sampled", "--set", "negatives=20", "--optimizer", "adagrad",
     "--batch", "15"],
    ["--data", "several.txt", "--estimator", "softmax", "--optimizer", "adagrad", "--batch", "15"],
]
PATIENCE = 30
STOPPED = 0.5  # seconds
# What they read beside the rows is KEPT, and what they write OUT.
KEPT, OUT = "kept", "out"
OTHERS = [
    ["convert-model", "--model", KEPT, "--output", OUT, "--type", "int8"],
    ["train", "--method", "label-tree", "--data", "several.txt", "--set", "leaf=60", "--set", "rounds=3", "--model", OUT],
]


def write_rows(folder, draw):
    values = lambda i: f"{i % 5}:{draw.randrange(1, 10) / 8} {5 + i % 3}:1"
    single = [f"{i} {values(i)}" for i in range(CLASSES)]
    several = [",".join(str(i + 90 * j) for j in range(CLASSES // 90)) + " " + values(i) for i in range(90)]
    for name, rows in [("single", single), ("several", several)]:
        (folder / f"{name}.txt").write_text("\n".join([f"{len(rows)} 8 {CLASSES}", *rows]) + "\n")


def ranks_of(launcher):
    """Processes of the command that a launcher has started, itself or by others."""
    parents, names = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = path.read_text().split(" (", 1)[1].rsplit(") ", 1)
        except OSError:
            continue
        number = int(path.parent.name)
        names[number], parents[number] = name, int(rest.split()[1])
        if rest[0] == "Z":
            names[number] = ""
    def started(number):
        while number > 1 and number != launcher:
            number = parents.get(number, 0)
        return number == launcher
    return sorted(number for number, name in names.items() if name.startswith("xsoftmax") and started(number))


def alive(numbers):
    """Whether one of these processes still runs."""
    for number in numbers:
        try:
            if ") Z " not in pathlib.Path(f"/proc/{number}/stat").read_text():
                return True
        except OSError:
            pass
    return False


def wait_while(going, limit, pause=0.01):
    """Waits while going(), `limit` seconds at most; returns how many. Of a time in which this program itself stood still,
    with the ranks or the whole machine, a quarter of a second counts."""
    spent, last = 0.0, time.monotonic()
    while spent < limit and going():
        time.sleep(pause)
        now = time.monotonic()
        spent += min(now - last, 0.25)
        last = now
    return spent


class Job:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.longest, self.hangs, self.launcher_hangs = 0.0, 0, 0

    def start(self, ranks, arguments):
        command = [self.options.alone, *arguments] if ranks == 1 else [
            "sh", str(HERE / "mpirun.sh"), self.options.kind, self.options.launcher, str(ranks), self.options.ranked,
            *arguments]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def finish(self, ranks, arguments):
        """Runs to the end; returns the seconds that it took."""
        process = self.start(ranks, arguments)
        seconds = wait_while(lambda: process.poll() is None, 600)
        if process.poll() is None:
            process.kill()
            sys.exit(f"FAILED: on {ranks} ranks, {' '.join(arguments)}: has not ended after 600 seconds")
        _, errors = process.communicate()
        if process.returncode != 0:
            sys.exit(f"FAILED: on {ranks} ranks, {' '.join(arguments)}: {errors}")
        return seconds

    def reach(self, ranks, arguments, seconds):
        """A run after so many seconds, and its ranks; None when it had ended by then."""
        process = self.start(ranks, arguments)
        found = []
        while process.poll() is None and len(found) < ranks:
            time.sleep(0.01)
            found = ranks_of(process.pid)
        wait_while(lambda: process.poll() is None, seconds, 0.002)
        if process.poll() is not None or not found:
            _, errors = process.communicate()
            if process.returncode != 0:
                sys.exit(f"FAILED: before any kill: {errors}")
            return None
        return process, found

    def stop(self, ranks, arguments, seconds, draw):
        """Stops a rank for a while after so many seconds; False when the run had ended by then."""
        reached = self.reach(ranks, arguments, seconds)
        if not reached:
            return False
        process, found = reached
        chosen = draw.choice(found)
        for sent in (signal.SIGSTOP, signal.SIGCONT):
            try:
                os.kill(chosen, sent)
            except ProcessLookupError:  # it has just ended
                break
            time.sleep(STOPPED)
        _, errors = process.communicate(timeout=600)
        if process.returncode != 0:
            sys.exit(f"FAILED: after a stop, {' '.join(arguments)}: {errors}")
        return True

    def kill(self, ranks, arguments, seconds, draw):
        """Kills a rank after so many seconds; False when the run had ended by then."""
        reached = self.reach(ranks, arguments, seconds)
        if not reached:
            return False
        process, found = reached
        try:
            os.kill(draw.choice(found), signal.SIGKILL)
        except ProcessLookupError:  # it has just ended
            pass
        self.longest = max(self.longest, wait_while(lambda: alive(found), PATIENCE))
        self.hangs += alive(found)
        wait_while(lambda: process.poll() is None, PATIENCE)
        if process.poll() is None:
            self.launcher_hangs += 1
            for number in found + [process.pid]:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        process.communicate()
        return True

    def readable(self, name):
        result = subprocess.run([self.options.alone, "info", name], cwd=self.folder, capture_output=True, text=True)
        return result.returncode == 0


def try_others(job, folder, draw):
    """Numbers of files that are neither the old one nor that of one process, and of kills and stops."""
    job.finish(1, ["train", *METHODS[0], "--eta", "0.1", "--epochs", "1", "--evaluate-train", "no", "--model", KEPT])
    bad = reached = 0
    for arguments in OTHERS:
        job.finish(1, arguments)
        whole = (folder / OUT).read_bytes()
        since = time.monotonic()
        job.finish(2, arguments)
        length = time.monotonic() - since
        (folder / OUT).write_bytes(b"old")
        reached += job.kill(2, arguments, draw.uniform(0, length), draw)
        left = (folder / OUT).read_bytes()
        (folder / OUT).write_bytes(b"old")
        reached += job.stop(2, arguments, draw.uniform(0, length / 2), draw)
        wrong = left not in (b"old", whole) or (folder / OUT).read_bytes() != whole
        if wrong:
            print(f"another file of {' '.join(arguments)}")
        bad += wrong
    return bad, reached


def main():
    parser = argparse.ArgumentParser()
    for name in ("kind", "launcher", "ranked", "alone"):
        parser.add_argument(name)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.ranked, options.alone = os.path.abspath(options.ranked), os.path.abspath(options.alone)
    draw = random.Random(options.seed)
    kills = unreadable = unequal = checkpoints = models = resumed = 0
    with tempfile.TemporaryDirectory(prefix="xsoftmax-kills.") as name:
        folder = pathlib.Path(name)
        job = Job(options, folder)
        write_rows(folder, draw)
        wholes, lengths = {}, {}
        while kills < options.trials:
            which = draw.randrange(len(METHODS))
            run = ["train", *METHODS[which], "--eta", "0.1", "--epochs", str(options.epochs), "--threads", "1",
                   "--evaluate-train", "no", "--model", "model", "--checkpoint", "checkpoint", "--checkpoint-every", "0"]
            if which not in wholes:
                job.finish(1, run)
                wholes[which] = (folder / "model").read_bytes()
                (folder / "model").unlink()
                (folder / "checkpoint").unlink()
                lengths[which] = job.finish(2, run)
                unequal += (folder / "model").read_bytes() != wholes[which]
                (folder / "model").unlink()
                (folder / "checkpoint").unlink()
            more = []
            while True:
                if not job.kill(draw.choice([2, 3]), run + more, draw.uniform(0, lengths[which]), draw):
                    break
                kills += 1
                if (folder / "model").exists():  # complete, and not half of it
                    models += 1
                    unequal += (folder / "model").read_bytes() != wholes[which]
                if (folder / "checkpoint").exists():
                    checkpoints += 1
                    unreadable += not job.readable("checkpoint")
                    more = ["--resume", "checkpoint"]
                if draw.random() < 0.67 or kills >= options.trials:
                    job.finish(draw.choice([1, 2, 3]), run + more)
                    resumed += bool(more)
                    break
            unequal += (folder / "model").read_bytes() != wholes[which]
            for file in folder.iterdir():
                if file.suffix != ".txt":
                    file.unlink()
        bad, reached = try_others(job, folder, draw)
        unequal += bad
    print(f"{options.kind}: {kills} kills, {job.hangs} hangs of ranks over {PATIENCE} s (the last rank ended after "
          f"{job.longest:.1f} s at most), {job.launcher_hangs} of the launcher; {checkpoints} checkpoints read, "
          f"{unreadable} unreadable; {models} models found complete; "
          f"{resumed} runs resumed to the end; {unequal} files with other bytes; {reached} kills and stops of other commands")
    if job.hangs or unreadable or unequal or reached == 0:
        sys.exit("FAILED")


if __name__ == "__main__":
    main()
