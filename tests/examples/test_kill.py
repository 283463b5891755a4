#!/usr/bin/env python3
"""Training that is killed (SIGKILL) at random moments: test_kill.py XSOFTMAX [--trials N] [--seed S]

Each trial runs `xsoftmax train` with a checkpoint after every epoch, kills it at a random moment of the run (most of
which it spends writing), and then requires that the checkpoint, if there is one by then, is readable, that the process
left at most one other file, and that resuming from it, killed again half of the times, ends in a model that is byte by
byte the one of the run that was never interrupted. A chain of kills goes through one estimator after the other.
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

ESTIMATORS = [
    ["umax", "--ridge", "1", "--set", "weight-bound=2"],
    ["implicit", "--ridge", "3"],
    ["implicit", "--batch", "10"],
    ["negative-sampling", "--set", "sampler=tree"],
    ["softmax", "--batch", "20"],
    ["decomp-mips", "--set", "candidates=9", "--set", "blocks=4", "--set", "index.clusters=7"],
]
EPOCHS = 25


def write_rows(path, draw):
    with open(path, "w", encoding="ascii") as file:
        for _ in range(400):
            label = draw.randrange(60)
            words = sorted({draw.randrange(40) for _ in range(4)} | {40 + label % 20})
            file.write(f"{label} " + " ".join(f"{w + 1}:{draw.random():.4f}" for w in words) + "\n")


class Run:
    def __init__(self, xsoftmax, folder, method):
        self.folder = folder
        self.command = [xsoftmax, "train", "--data", str(folder / "rows.svm"), "--format", "libsvm", "--eta", "0.5",
                        "--epochs", str(EPOCHS), "--threads", "2", "--estimator", *method]

    def start(self, model, *more):
        return subprocess.Popen([*self.command, "--model", str(self.folder / model), *more],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, model, *more):
        process = self.start(model, *more)
        _, errors = process.communicate(timeout=300)
        if process.returncode != 0:
            sys.exit(f"FAILED: {' '.join(process.args)}: {errors}")
        return (self.folder / model).read_bytes()


def kill_after(process, seconds):
    """Kills the process; False when it had ended by itself."""
    try:
        _, errors = process.communicate(timeout=seconds)
        if process.returncode != 0:
            sys.exit(f"FAILED: {' '.join(process.args)}: {errors}")
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xsoftmax")
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kills = early = files = leftovers = resumed = 0
    with tempfile.TemporaryDirectory(prefix="xsoftmax-kill.") as name:
        folder = pathlib.Path(name)
        write_rows(folder / "rows.svm", draw)
        checkpoint = folder / "run.checkpoint"
        save = ["--checkpoint", str(checkpoint), "--checkpoint-every", "0"]
        resume = ["--resume", str(checkpoint)]
        while kills < options.trials:
            run = Run(os.path.abspath(options.xsoftmax), folder, ESTIMATORS[kills % len(ESTIMATORS)])
            whole = run.finish("whole.model")
            begin = time.monotonic()
            if run.finish("saving.model", *save) != whole:
                sys.exit("FAILED: saving checkpoints changed the model")
            seconds = time.monotonic() - begin
            checkpoint.unlink()
            more = []
            while True:
                if not kill_after(run.start("killed.model", *save, *more), draw.uniform(0, seconds)):
                    break
                kills += 1
                left = [f for f in folder.iterdir() if f.suffix in (".tmp", ".new")]
                leftovers += len(left)
                for file in left:
                    file.unlink()
                if not checkpoint.exists():
                    early += 1
                    continue
                files += 1
                info = subprocess.run([run.command[0], "info", str(checkpoint)], capture_output=True, text=True)
                if info.returncode != 0:
                    sys.exit(f"FAILED: after kill {kills} the checkpoint is not readable: {info.stderr}")
                more = resume
                if draw.random() < 0.5 or kills >= options.trials:
                    break
            if more:
                if run.finish("killed.model", *more) != whole:
                    sys.exit(f"FAILED: resumed after kill {kills}, {' '.join(run.command)} made another model")
                resumed += 1
                checkpoint.unlink()
            for file in folder.glob("killed.model*"):
                file.unlink()
    print(f"{kills} kills, {early} of them before the first checkpoint, {files} checkpoints read, 0 unreadable; "
          f"{resumed} runs resumed to the end, all to the same bytes; {leftovers} unfinished files left behind")
    if resumed == 0:
        sys.exit("FAILED: no run was resumed")


if __name__ == "__main__":
    main()
