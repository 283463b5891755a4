#!/usr/bin/env python3
"""The core stays small and reaches no struct of another tier that has no number of its ABI, and the page on promises says
how many functions each tier has:
check_tiers.py SYMBOLS PROMISES-PAGE INCLUDE COMPILER...
"""
import pathlib
import re
import sys

import abi

# What can be learnt at a sitting.
MOST = 110


def main():
    counts = {}
    for line in pathlib.Path(sys.argv[1]).read_text().split("\n"):
        if line.startswith("# "):
            tier = line[2:]
        elif line:
            counts[tier] = counts.get(tier, 0) + 1
    said = {name: int(number) for name, number in
            re.findall(r"^\| (\w+) \|[^|]*\| (\d+) \|", pathlib.Path(sys.argv[2]).read_text(), flags=re.M)}
    bad = [f"the page says {said.get(tier)} functions of tier {tier}; there are {count}"
           for tier, count in counts.items() if said.get(tier) != count]
    if counts["core"] > MOST:
        bad.append(f"the core has {counts['core']} functions, more than {MOST}")
    api = abi.Interface(pathlib.Path(sys.argv[3]).resolve(), sys.argv[4:])
    bad += [f"{name} of the core reaches {struct} of {api.places[struct]}, which is not of the core and has no member abi"
            for name, struct in api.unnumbered()]
    print("\n".join(bad + [", ".join(f"{tier} {count}" for tier, count in counts.items())]))
    return 1 if bad or len(said) != len(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
