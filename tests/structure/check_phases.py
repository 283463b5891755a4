#!/usr/bin/env python3
"""The page on cancelling lists the phases that the library names, and no other: check_phases.py SOURCE-ROOT

A phase is what xsmi_begin() and its like are given; on the page, the paragraph that begins with **What.**
"""
import pathlib
import re
import sys

# A phase stands in the text after the context and before the unit. lib/base/activity.c hands on those of others.
BEGIN = re.compile(r'\bxsmi_begin(?:_cover|_short|_whole)?\(([^;]*?)\);', re.S)
PHASE = re.compile(r'"([^"]*)",\s*[^"]*"')


def main():
    root = pathlib.Path(sys.argv[1])
    bad, named = [], {}
    for source in sorted((root / "lib").rglob("*.c")):
        if source.relative_to(root).as_posix() == "lib/base/activity.c":
            continue
        for call in BEGIN.findall(source.read_text()):
            phase = PHASE.search(call)
            if phase:
                named.setdefault(phase.group(1), source.relative_to(root))
            else:
                bad.append(f"{source.relative_to(root)}: no phase in xsmi_begin({' '.join(call.split())})")
    page = (root / "doc/guide/cancelling.md").read_text()
    paragraph = re.search(r"^\*\*What\.\*\* `phase` is one of: (.*?)\.", page, flags=re.M | re.S)
    listed = {" ".join(part.split()) for part in re.split("[,;]", paragraph.group(1))} if paragraph else set()
    bad += [f"doc/guide/cancelling.md lacks the phase '{phase}' of {source}"
            for phase, source in sorted(named.items()) if phase not in listed]
    bad += [f"doc/guide/cancelling.md lists '{phase}', which lib/ does not name" for phase in sorted(listed - set(named))]
    print("\n".join(bad + [f"{len(named)} phases, {len(bad)} defects"]))
    return 1 if bad or len(named) < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
