#!/usr/bin/env python3
"""CHANGELOG.md has one entry a release, the newest first, and one that is not empty for the version being built:

check_changelog.py FILE VERSION
"""
import re
import sys


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    entry = re.search(rf"^## \[{re.escape(sys.argv[2])}\] - (unreleased|\d{{4}}-\d\d-\d\d)\n(.*?)(?=^## |\Z)", text,
                      flags=re.M | re.S)
    if not entry:
        print(f"CHANGELOG.md has no entry \"## [{sys.argv[2]}] - DATE\"")
        return 1
    if not re.search(r"^- \S", entry.group(2), flags=re.M):
        print(f"the entry for {sys.argv[2]} lists nothing")
        return 1
    releases = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\]", text, flags=re.M)
    numbers = [tuple(map(int, release)) for release in releases]
    if numbers != sorted(set(numbers), reverse=True):
        print("the releases of CHANGELOG.md are not in falling order, each once")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
