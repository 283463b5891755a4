#!/usr/bin/env python3
"""The page of all options says what the library's tables say: check_options.py PROGRAM PAGE METHODS...

PROGRAM prints the page. METHODS are the headers with the lists of the built-in methods: the page has a section for each.
"""
import difflib
import pathlib
import re
import subprocess
import sys


def main():
    program, page, lists = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    printed = subprocess.run([program], text=True, capture_output=True, check=True).stdout
    text = page.read_text()
    difference = list(difflib.unified_diff(text.splitlines(), printed.splitlines(), page.name, "printed", lineterm=""))
    print("\n".join(difference))
    if difference:
        print(f"renew the page: {program} >doc/method_options.md")
    sections = len(re.findall(r"^### ", text, flags=re.M))
    methods = 0
    for name in lists:
        # #define XSMI_SAMPLERS(X) and a line X(table, ...) for each method
        for block in re.findall(r"#define XSMI_(?:ESTIMATORS|SAMPLERS|INDEXES|OPTIMIZERS)\(X\)((?:.*\\\n)*.*)",
                                pathlib.Path(name).read_text()):
            methods += len(re.findall(r"\bX\(", block))
    print(f"{sections} sections, {methods} methods")
    return 1 if difference or sections != methods or not methods else 0


if __name__ == "__main__":
    sys.exit(main())
