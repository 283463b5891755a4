#!/usr/bin/env python3
"""Links and images of the documents lead to files that are there, and rows of tables in comments are whole:

check_links.py SOURCE-ROOT
"""
import pathlib
import re
import sys


def links(root):
    pages = ["README.md", "CHANGELOG.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md"]
    for page in [*(root / name for name in pages), *sorted((root / "doc").rglob("*.md"))]:
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"@ref|https?:|#", target):
                continue
            path = page.parent / target.split("#")[0]
            if not path.exists():
                yield f"{page.relative_to(root)}: no {target}"
            elif page.is_relative_to(root / "doc") and path.suffix == ".md":
                yield from unnamed(root, page, path.resolve())


def unnamed(root, page, path):
    """doc/links.sh derives the id of a page from the link's path; a page with another id needs @ref."""
    prefix = {"guide": "guide_", "measurements": "measure_", "decisions": "decisions_"}.get(path.parent.name, "")
    if path.is_relative_to(root / "doc") and f"{{#{prefix}{path.stem}}}" not in path.read_text(encoding="utf-8"):
        yield f"{page.relative_to(root)}: {path.name} has not the id {prefix}{path.stem}: use @ref"


def tables(root):
    """What breaks a table when a formatter wraps its rows: fewer columns than in the head."""
    for header in sorted((root / "include").rglob("*.h")):
        columns = None
        for number, line in enumerate(header.read_text(encoding="utf-8").splitlines(), 1):
            if not re.match(r" \* +\|", line):
                columns = None
                continue
            here = re.sub(r"`[^`]*`|\\\|", "", line).count("|")
            columns = columns or here
            if here != columns:
                yield f"{header.relative_to(root)}:{number}: {here - 1} columns, the table has {columns - 1}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    bad = [*links(root), *tables(root)]
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
