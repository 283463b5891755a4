#!/usr/bin/env python3
"""The program in README.md compiles, and trains: check_readme.py README INCLUDE-DIRECTORY LIBRARY COMPILER..."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DATA = "".join(f"{1 + i % 9} {1 + i % 9}:1 {10 + i % 2}:0.5\n" for i in range(60))


def main():
    readme, include, library, compiler = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    programs = [block for block in re.findall(r"^```c\n(.*?)^```", open(readme, encoding="utf-8").read(), re.M | re.S)
                if "int main(" in block]
    if len(programs) != 1:
        print(f"{len(programs)} programs in README.md; one is expected")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "loop.c").write_text(programs[0])
        (work / "data.txt").write_text(DATA)
        command = compiler + ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include,
                              str(work / "loop.c"), "-o", str(work / "loop"), str(library)]
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
        for step in (command, [str(work / "loop"), str(work / "data.txt"), str(work / "model")]):
            result = subprocess.run(step, text=True, capture_output=True, env=environment)
            if result.returncode != 0 or result.stderr:
                print(" ".join(step), "\n", result.stdout, result.stderr)
                return 1
        wrong = subprocess.run([str(work / "loop"), str(work / "missing"), str(work / "model")], text=True,
                               capture_output=True, env=environment)
        if wrong.returncode == 0 or "missing" not in wrong.stderr or not (work / "model").exists():
            print("a missing file is not reported, or no model was saved:", wrong.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
