#!/usr/bin/env python3
"""Ctrl-C in everything that can take long: test_interrupt.py XSOFTMAX [--no-lbfgs]

Each run has a terminal of its own, on which the command shows what it does. When the phase to be interrupted appears
there, the test types Ctrl-C, once. It compares exit code and message, requires that files which were there are as
before, that no unfinished ones are left, and that what is to be kept can be used. Phases are made so long that they
cannot end between what is shown and Ctrl-C; one that reads lasts until then, as it reads from a pipe that never ends.
"""
import argparse
import fcntl
import os
import pathlib
import pty
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

CLASSES, FEATURES, EACH = 20000, 1500, 12
PATIENCE = 100  # seconds
OLD = b"what was there"
STOPPED = 128 + signal.SIGINT


def fail(text):
    sys.exit(f"FAILED: {text}")


def rows(draw, count, classes):
    """Rows of EACH features; every class occurs if there are as many rows."""
    lines = []
    for i in range(count):
        first = draw.randrange(FEATURES // EACH)
        features = " ".join(f"{1 + first + j * (FEATURES // EACH)}:{draw.random():.3f}" for j in range(EACH))
        lines.append(f"{i % classes} {features}\n")
    return "".join(lines)


class Terminal:
    """A command with its messages on a terminal of its own and its output in a file."""

    def __init__(self, command, output):
        self.command = " ".join(str(c) for c in command)
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))

        def prepare():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(c) for c in command], stdin=slave, stdout=output, stderr=slave,
                                        start_new_session=True, preexec_fn=prepare, env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.shown = ""

    def read(self, until):
        """Reads what the command shows until a text appears, or until it closes the terminal."""
        end = time.monotonic() + PATIENCE
        while until is None or until not in self.shown:
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                self.process.kill()
                fail(f"{self.command}: {until!r} does not appear in\n{self.shown[-400:]}")
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # the other side is closed
                piece = b""
            if not piece:
                if until is not None:
                    fail(f"{self.command}: ended with {self.process.wait()} before {until!r}; it showed\n{self.shown[-400:]}")
                return
            self.shown += piece.decode()

    def interrupt(self):
        """Types Ctrl-C; returns the exit code and the seconds until then."""
        since = time.monotonic()
        os.write(self.master, b"\x03")
        self.read(None)
        code = self.process.wait(timeout=PATIENCE)
        os.close(self.master)
        return code, time.monotonic() - since


class Tests:
    def __init__(self, xsoftmax, folder):
        self.xsoftmax = xsoftmax
        self.folder = folder
        self.slowest = (0, "")
        self.count = 0

    def run(self, *arguments):
        done = subprocess.run([self.xsoftmax, *[str(a) for a in arguments]], capture_output=True, text=True,
                              timeout=PATIENCE)
        if done.returncode != 0:
            fail(f"{' '.join(done.args)}: {done.stderr}")
        return done.stdout

    def interrupted(self, phase, message, *arguments, kept=()):
        """Interrupts a command in a phase. Files in the folder are as before, but for those of `kept`."""
        before = {f: f.read_bytes() for f in self.folder.iterdir() if f.is_file() and f.stat().st_size < 1000}
        names = set(self.folder.iterdir())
        with open(self.folder.parent / "output", "wb") as output:
            terminal = Terminal([self.xsoftmax, *arguments], output)
            terminal.read(phase)
            found, seconds = terminal.interrupt()
        if found != STOPPED or message not in terminal.shown:
            fail(f"{terminal.command}: interrupted at {phase!r} it ended with {found}, not {STOPPED}; it showed\n"
                 f"{terminal.shown[-600:]}")
        if set(self.folder.iterdir()) - names - set(kept):
            fail(f"{terminal.command}: leaves {set(self.folder.iterdir()) - names - set(kept)}")
        for file in kept:
            if not file.exists():
                fail(f"{terminal.command}: does not leave {file}")
        for file, contents in before.items():
            if file not in kept and file.read_bytes() != contents:
                fail(f"{terminal.command}: changes {file}")
        self.slowest = max(self.slowest, (seconds, phase))
        self.count += 1


def feed(path, text):
    """Writes to a pipe until nobody reads it any more."""
    def write():
        try:
            with open(path, "w", encoding="ascii") as pipe:
                while True:
                    pipe.write(text)
        except BrokenPipeError:
            pass
    thread = threading.Thread(target=write, daemon=True)
    thread.start()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xsoftmax")
    parser.add_argument("--no-lbfgs", action="store_true")
    options = parser.parse_args()
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as e:
        print(f"skipped: no terminal can be opened here: {e}")
        sys.exit(77)
    draw = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="xsoftmax-interrupt.") as name:
        folder = pathlib.Path(name) / "files"
        folder.mkdir()
        t = Tests(os.path.abspath(options.xsoftmax), folder)
        wide, many, small = folder / "wide.svm", folder / "many.svm", folder / "small.svm"
        text = rows(draw, CLASSES, CLASSES)
        wide.write_text(text)
        many.write_text(text * 10)
        small.write_text(rows(draw, 2000, 400))
        model, wide_model, checkpoint = folder / "a.model", folder / "wide.model", folder / "a.checkpoint"
        t.run("train", "--data", wide, "--format", "libsvm", "--estimator", "implicit", "--eta", "0.1", "--epochs", "1",
              "--threads", "1", "--model", wide_model)
        model.write_bytes(OLD)

        def train(data, *more):
            return "train", "--data", data, "--format", "libsvm", "--threads", "1", "--model", model, *more

        pipe = folder / "pipe"
        os.mkfifo(pipe)
        feed(pipe, text)
        t.interrupted("reading", "cancelled while reading", *train(pipe))
        t.interrupted("choosing: ", "stopped while choosing how to train; no model was trained", *train(many))
        t.interrupted("choosing", "stopped while choosing a learning rate; no model was trained",
                      *train(many, "--estimator", "implicit"))
        for phase in ("finding principal components", "fitting a tree"):
            t.interrupted(phase, f"cancelled while {phase}",
                          *train(many, "--estimator", "negative-sampling", "--set", "sampler=tree", "--eta", "0.1"))
        forever = ("--estimator", "implicit", "--eta", "0.01", "--epochs", "1000000", "--schedule", "constant")
        t.interrupted("epoch 1", "stopped after", *train(small, *forever, "--checkpoint", checkpoint),
                      kept=(model, checkpoint))
        t.run("evaluate", "--model", model, "--data", small, "--format", "libsvm")
        model.write_bytes(OLD)
        before = checkpoint.read_bytes()
        t.interrupted("epoch 1", "stopped after", *train(small, *forever, "--resume", checkpoint, "--checkpoint", checkpoint),
                      kept=(model, checkpoint))
        if checkpoint.read_bytes() == before:
            fail("the run that was resumed did not save how far it came")
        model.write_bytes(OLD)
        t.interrupted("evaluating", "stopped while evaluating; the trained model is in",
                      *train(wide, "--estimator", "implicit", "--eta", "0.1", "--epochs", "1", "--test", many), kept=(model,))
        if model.read_bytes() != wide_model.read_bytes():
            fail("a run that was stopped while evaluating saved another model")
        if not options.no_lbfgs:
            model.write_bytes(OLD)
            t.interrupted("iteration", "stopped after",
                          *train(small, "--estimator", "softmax", "--optimizer", "lbfgs", "--iterations", "1000000",
                                 "--tolerance", "0"), kept=(model,))
            t.run("evaluate", "--model", model, "--data", small, "--format", "libsvm")
        rows_of = ("--model", wide_model, "--data", many, "--format", "libsvm", "--threads", "1")
        t.interrupted("evaluating", "cancelled while evaluating", "evaluate", *rows_of)
        t.interrupted("predicting", "cancelled while predicting", "predict", *rows_of)
        if (folder.parent / "output").read_bytes()[-1:] not in (b"", b"\n"):
            fail("a prediction that was stopped ends within a line")
        t.interrupted("evaluating", "cancelled while evaluating", "evaluate", *rows_of, "--ranks")
        t.interrupted("building", "cancelled while", "predict", *rows_of, "--index", "spherical")
        t.interrupted("writing", "cancelled while writing", "convert", "--data", many, "--format", "libsvm",
                      "--to", "csv", "--output", folder / "many.csv")
        print(f"{t.count} runs interrupted; the slowest took {t.slowest[0]:.2f} s to end, at {t.slowest[1]!r}")


if __name__ == "__main__":
    main()
