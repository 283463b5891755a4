#!/usr/bin/env python3
"""Each public header names its licence and compiles alone, without a warning: check_headers.py INCLUDE-DIRECTORY STANDARD
COMPILER...

A header is also included twice, so that a missing guard shows. What is experimental needs XSM_EXPERIMENTAL.
"""
import pathlib
import subprocess
import sys


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
    print(f"{len(headers)} headers as {standard}, {len(bad)} of them bad")
    return 1 if bad or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
