#!/usr/bin/env python3
"""The programs that README.md and pages of the guide show compile, train and print labels:

    check_readme.py SOURCE-ROOT LIBRARY XSOFTMAX-ABI.JSON CC... -- CXX...

Each is on two pages, the same: a program in C of at most 25 lines, in C++ of 12, in Python of 6. The page on estimators
has one whose table passes the suite and trains, that on checkpoints one that is killed and goes on to the same bytes.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

PAGES = {"c": ("README.md", "doc/guide/from_c.md", 25), "cpp": ("README.md", "doc/guide/cpp.md", 12),
         "python": ("README.md", "doc/guide/bindings.md", 6)}
# Row i has the label 1 + i % 9, and a feature of that number.
ROWS = [f"{1 + i % 9} {1 + i % 9}:1 {10 + i % 2}:0.5\n" for i in range(90)]


def first_program(root, page, language):
    found = re.search(rf"^```{language}\n(.*?)^```", (root / page).read_text(encoding="utf-8"), re.M | re.S)
    if not found:
        sys.exit(f"{page} has no program in {language}")
    return found.group(1)


def main():
    root, library, abi = (pathlib.Path(text).resolve() for text in sys.argv[1:4])
    split = sys.argv.index("--")
    compilers = {"c": sys.argv[4:split] + ["-std=c11"], "cpp": sys.argv[split + 1:] + ["-std=c++17"]}
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library.parent), PYTHONPATH=str(root / "examples/python"),
                       XSOFTMAX_LIBRARY=str(library), XSOFTMAX_ABI=str(abi), PYTHONDONTWRITEBYTECODE="1")

    def run(command):
        return subprocess.run(command, text=True, capture_output=True, cwd=work, env=environment)

    def build(language, source):
        built = run(compilers[language] + ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(root / "include"), "-o",
                                           "first", source.name, str(library), "-lm"])
        if built.returncode != 0:
            sys.exit(built.stderr)

    def model_of(page):
        done = run(["./first"])
        if done.returncode != 0 or done.stderr or (work / "run.checkpoint").exists():
            sys.exit(f"{page}: {done.stderr}")
        return (work / "my.model").read_bytes()

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for language, (page, other, lines) in PAGES.items():
            program = first_program(root, page, language)
            if program != first_program(root, other, language) or program.count("\n") > lines:
                sys.exit(f"the programs in {language} of {page} and {other} are not the same, of {lines} lines at most")
            source, command = work / f"first.{language}", [sys.executable, f"first.{language}"]
            source.write_text(program)
            if language == "python" and (library.read_bytes()[4] == 2) != (sys.maxsize > 2**32):
                continue  # a library of 32 bits, which Python's of 64 cannot load
            if language in compilers:
                build(language, source)
                command = ["./first"]
            (work / "new.txt").write_text("".join(ROWS[3:6]))
            (work / "train.txt").unlink(missing_ok=True)
            missing = run(command)
            if missing.returncode == 0 or "train.txt" not in missing.stderr:
                sys.exit(f"{language}: a missing file is not reported: {missing.stderr}")
            (work / "train.txt").write_text("".join(ROWS))
            done = run(command)
            printed = [line.split()[0] for line in done.stdout.splitlines()]
            # In C the best labels of the first row; else a line for each row, the best label first.
            right = printed[:1] == ["4"] and len(set(printed)) == 5 if language == "c" else printed == ["4", "5", "6"]
            if done.returncode != 0 or done.stderr or not right:
                sys.exit(f"{language}: {done.stdout}{done.stderr}")
        source = work / "first.c"
        for page in ("own_estimator", "checkpoints"):
            source.write_text(first_program(root, f"doc/guide/{page}.md", "c"))
            build("c", source)
            model = model_of(page)
        process = subprocess.Popen(["./first"], cwd=work, env=environment)
        while not (work / "run.checkpoint").exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
        if process.wait() < 0 and not (work / "run.checkpoint").exists():
            sys.exit("checkpoints: the killed program left none")
        if model_of(page) != model:
            sys.exit("checkpoints: other bytes after it was killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
