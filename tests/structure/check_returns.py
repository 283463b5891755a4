#!/usr/bin/env python3
"""What a function returns is said with what matters first: check_returns.py INCLUDE-DIRECTORY

After #XSM_OK a comment names the error that a caller has to think of, with its condition. What any function may return
(error.h lists it) is not repeated without a condition. Where a host gives a function, it is said that it must not throw.
"""
import pathlib
import re
import sys

ANY = r"#XSM_ERROR_(ARGUMENT|MEMORY|RUNNER|STRUCT_OLD|STRUCT_NEW)"


def items(text):
    """The parts between semicolons outside brackets, up to the first full stop outside."""
    parts, depth, part = [], 0, ""
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == "." and (at + 1 == len(text) or text[at + 1] == " "):
            break
        if depth == 0 and letter == ";":
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    return parts + [part.strip()]


def callbacks(text):
    """Types of functions, and structs with functions, each with the comments that a reader finds there: its own, those of its
    members, and that of the group."""
    groups = " ".join(re.findall(r"/\*\*(?:(?!\*/).)*@defgroup(?:(?!\*/).)*\*/", text, flags=re.S))
    for comment, name in re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*typedef [^;{}]*\(\*(xsm_\w+)\)\(", text, flags=re.S):
        if name != "xsm_job":  # the library's, which a host calls
            yield name, comment + groups
    for comment, name, members in re.findall(r"/\*\*((?:(?!\*/).)*)\*/\s*(?:typedef )?struct (xsm_\w+) \{(.*?)^\}", text,
                                             flags=re.M | re.S):
        if re.search(r"\(\*\w+\)\(", members):
            yield name, comment + members + groups


def main():
    bad, seen, lent = [], 0, 0
    for header in sorted(pathlib.Path(sys.argv[1]).rglob("*.h")):
        for comment, name in re.findall(r"@return ((?:(?!\*/).)*)\*/\s*XSM_API[^;]*?\b(xsm_\w+)\(", header.read_text(),
                                        flags=re.S):
            parts = items(" ".join(re.sub(r"\n *\* *", " ", comment).split()))
            if not parts[0].startswith("#XSM_OK"):
                continue
            seen += 1
            for place, part in enumerate(parts[1:]):
                if re.fullmatch(rf"{ANY}((, | or | and ){ANY})*", part):
                    bad.append(f"{header.name}: {name}() need not say {part}: error.h does for all")
                elif place == 0 and len(parts) > 2 and re.fullmatch(r"#XSM_ERROR_(RANGE|LIMIT|STATE|SHAPE)", part):
                    bad.append(f"{header.name}: {name}() names {part} first, without saying when")
            if parts == ["#XSM_OK"]:
                bad.append(f"{header.name}: {name}() names no error")
        for name, said in callbacks(header.read_text()):
            lent += 1
            if not re.search(r"must\s+(?:\*\s+)?not\s+(?:\*\s+)?throw", said):
                bad.append(f"{header.name}: {name} does not say that it must not throw")
    print("\n".join(bad + [f"{seen} functions return a status, hosts give {lent} kinds of functions; {len(bad)} say it badly"]))
    return 1 if bad or seen < 90 or lent < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
