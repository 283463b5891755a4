#!/usr/bin/env python3
"""No line of the documents, of C or of Python is longer than 130 characters: check_lines.py SOURCE-ROOT

Tables, code blocks and links that are longer by themselves may be, and so may numbers that a script made (tests/golden).
And the lines of a comment, or of a list's item, in the public headers begin alike, which wrapping by hand or by clang-format may
break.
"""
import pathlib
import re
import sys

LIMIT = 130
CODE = (".c", ".h", ".cpp", ".py")
FOLDERS = ("include", "lib", "examples", "tests", "bench", "doc")


def text_lines(page):
    """The numbered lines of a page that are neither of a table nor of a code block."""
    fenced, before = False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = line.lstrip().startswith("```")
        indented = line.startswith("    ") and (before == "" or before.startswith("    "))
        if not (fenced or fence or indented or line.startswith("|")):
            yield number, line
        fenced ^= fence
        before = line


def without_links(line):
    return re.sub(r"\]\([^)\s]+\)|https?://\S+", "", line)


def long_lines(root):
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    for page in [*sorted(root.glob("*.md")), *(path for path in files if path.suffix == ".md")]:
        yield from ((page, number) for number, line in text_lines(page) if len(without_links(line)) > LIMIT)
    for source in files:
        if source.suffix in CODE and source.parent != root / "tests/golden":
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
