#!/usr/bin/env python3
"""No line of C or of Python is longer than 130 characters: check_lines.py SOURCE-ROOT

Numbers that a script made (tests/golden) may be. And the lines of a comment, or of a list's item, in the public headers begin
alike, which wrapping by hand or by clang-format may break.
"""
import pathlib
import re
import sys

LIMIT = 130
CODE = (".c", ".h", ".cpp", ".py")
FOLDERS = ("include", "lib", "examples", "tests", "bench")


def long_lines(root):
    for source in (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in CODE):
        if source.parent != root / "tests/golden":
            lines = source.read_text(encoding="utf-8").splitlines()
            yield from ((source, number) for number, line in enumerate(lines, 1) if len(line) > LIMIT)


def crooked_lines(root):
    """Lines of a header's comment of a function or struct that begin with ` * ` in place of ` *  `; and lines of a list's item
    that begin left of its text."""
    for header in sorted((root / "include").rglob("*.h")):
        text = header.read_text(encoding="utf-8")
        for comment in re.finditer(r"/\*\*(?!<).*?\*/", text, flags=re.S):
            lines = comment.group().split("\n")[1:]
            first = text.count("\n", 0, comment.start()) + 2
            deep = comment.group().startswith("/** ") and "@defgroup" not in comment.group()
            item = 0  # where the text of the item begins that a line is in
            for number, line in enumerate(lines, first):
                at = re.match(r" *\** *", line).end()
                if line.startswith("- ", at):
                    item = at + 2
                elif line[at:at + 1] in ("", "/", "@"):
                    item = 0
                if 0 < at < item and not line.startswith("- ", at) or deep and re.match(r" *\* [^ */]", line):
                    yield header, number


def main():
    root = pathlib.Path(sys.argv[1])
    bad = [f"{path.relative_to(root)}:{number}: longer than {LIMIT} characters" for path, number in long_lines(root)]
    bad += [f"{path.relative_to(root)}:{number}: begins otherwise than the other lines of its comment"
            for path, number in crooked_lines(root)]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
