#!/usr/bin/env python3
"""Each public header names its licence and compiles alone, without a warning: check_headers.py INCLUDE-DIRECTORY STANDARD
COMPILER...

A header is also included twice, so that a missing guard shows. What is experimental needs XSM_EXPERIMENTAL, or says in a table of
ext/ that it is; and what xsoftmax.h includes has no more functions than a reader can go through.
"""
import pathlib
import re
import subprocess
import sys

FUNCTIONS = 110  # that xsoftmax.h includes without XSM_EXPERIMENTAL


def check_tables(include):
    """The members that doc/guide/promises.md names as experimental are those that say so."""
    page = (include.parent / "doc/guide/promises.md").read_text()
    named = set(re.findall(r"`(\w+)`", re.search(r"comments say \*experimental\* \((.*?)\)", page, flags=re.S).group(1)))
    says = set()
    for header in (include / "xsoftmax/ext").glob("*.h"):
        says |= set(re.findall(r"/\*\* Experimental: (?:(?!\*/).)*\*/\s*[^;]*?[ *](\w+)(?:\)\([^;]*)?;", header.read_text(),
                               flags=re.S))
    for name in named ^ says:
        print(f"{name} is experimental on the page or in the header alone")
    return sorted(named ^ says)


def main():
    include, standard, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    language = "c++" if "++" in standard else "c"
    command = compiler + ["-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                          "-Wshadow", "-Wundef", "-fsyntax-only", "-I", str(include), "-"]
    if language == "c":
        command += ["-Wstrict-prototypes"]
    headers = sorted(include.rglob("*.h")) + (sorted(include.rglob("*.hpp")) if language == "c++" else [])
    bad = []
    for header in headers:
        name = header.relative_to(include)
        text = header.read_text()
        if not text.startswith("/* SPDX-License-Identifier: MIT */\n"):
            bad.append(name)
            print(f"{name} does not begin with its licence")
        experimental = "#ifndef XSM_EXPERIMENTAL" in text
        if experimental and "define XSM_EXPERIMENTAL to use it" not in subprocess.run(
                command, input=f"#include <{name}>\n", text=True, capture_output=True).stderr:
            bad.append(name)
            print(f"{name} is to be had without XSM_EXPERIMENTAL")
        source = ("#define XSM_EXPERIMENTAL\n" * experimental + f"#include <{name}>\n#include <{name}>\n"
                  "int main(void);\nint main(void) { return 0; }\n")
        result = subprocess.run(command, input=source, text=True, capture_output=True)
        if result.returncode != 0 or result.stderr:
            bad.append(name)
            print(f"{name} as {standard}:\n{result.stderr}")
    preprocess = [each for each in command if each != "-fsyntax-only"] + ["-E", "-P"]
    text = subprocess.run(preprocess, input="#include <xsoftmax.h>\n", text=True, capture_output=True).stdout
    functions = set(re.findall(r"visibility\(\"default\"\)[^;{]*?\b(xsm_\w+)\(", text))
    print(f"xsoftmax.h includes {len(functions)} functions; {FUNCTIONS} are accepted, others have headers of their own")
    bad += check_tables(include) + (["xsoftmax.h"] if not 90 < len(functions) <= FUNCTIONS else [])
    print(f"{len(headers)} headers as {standard}, {len(bad)} of them bad")
    return 1 if bad or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
