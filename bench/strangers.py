#!/usr/bin/env python3
"""Sets from Debian's packages, as one finds them: what a first command makes of each, and what the last one reaches.

    python3 bench/strangers.py XSOFTMAX [FOLDER]     prints Markdown; sets whose package is not installed are left out

Packages: python3-sklearn unicode-data ieee-data pci.ids wordnet-base unicode-cldr-core hunspell-en-us wamerican weka
python3-statsmodels.
"""
import csv
import os
import random
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

ANES = "/usr/lib/python3/dist-packages/statsmodels/datasets/anes96/anes96.csv"
SKLEARN = "/usr/lib/python3/dist-packages/sklearn/datasets/data/"


def halves(lines, header=None):
    """Every fifth line is for testing; the order is one at random, always the same."""
    random.Random(1).shuffle(lines)
    top = [header] if header is not None else []
    return top + [x for i, x in enumerate(lines) if i % 5], top + [x for i, x in enumerate(lines) if i % 5 == 0]


def write(name, lines):
    with open(name, "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)


def split(name, lines, header=None, ending="txt"):
    train, test = halves(lines, header)
    write(f"{name}.{ending}", train)
    write(f"{name}_test.{ending}", test)


def words(text):
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


def digits():
    yield f"train --data {SKLEARN}digits.csv.gz"
    yield f"train --data {SKLEARN}digits.csv.gz --label-column -1"


def iris():
    yield f"train --data {SKLEARN}iris.csv"
    yield f"train --data {SKLEARN}iris.csv --header yes --label-column -1"


def unicode_data():
    with open("/usr/share/unicode/UnicodeData.txt", encoding="utf-8") as file:
        split("unicode", file.read().splitlines())
    yield "train --data unicode.txt --test unicode_test.txt"
    yield "train --data unicode.txt --test unicode_test.txt --header no --label-column 2 --text-column 1"


def oui():
    with open("/usr/share/ieee-data/oui.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    for name, part in zip(("oui.csv", "oui_test.csv"), halves(rows[1:], rows[0])):
        with open(name, "w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows(part)
    yield "train --data oui.csv --test oui_test.csv"
    yield ('train --data oui.csv --test oui_test.csv --label-column "Organization Name" --text-column '
           '"Organization Address"')


def pci():
    vendor, rows = "", []
    with open("/usr/share/misc/pci.ids", encoding="utf-8") as file:
        for line in file:
            if re.match(r"[0-9a-f]{4}  ", line):
                vendor = line[6:].strip()
            elif re.match(r"\t[0-9a-f]{4}  ", line) and vendor:
                rows.append(f"{vendor}\t{words(line[7:])}")
    split("pci", rows, ending="tsv")
    yield "train --data pci.tsv --test pci_test.tsv"
    yield "train --data pci.tsv --test pci_test.tsv --header no --label-column 0 --text-column 1"


def wordnet():
    rows = []
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"/usr/share/wordnet/data.{part}", encoding="utf-8") as file:
            for line in file:
                if not line.startswith(" "):
                    left, gloss = line.split("|", 1)
                    rows.append(f"__label__{part}.{left.split()[1]} {words(gloss)}")
    split("wordnet", rows)
    yield "train --data wordnet.txt --test wordnet_test.txt"


def emoji():
    rows = []
    for item in xml.parse("/usr/share/unicode/cldr/common/annotations/en.xml").getroot().iter("annotation"):
        if item.get("type") is None and item.text:
            keys = [words(key).replace(" ", "_") for key in item.text.split("|")]
            if item.get("cp") != '"':
                rows.append(f'"{item.get("cp")}","{",".join(key for key in keys if key)}"')
    split("emoji", rows, "text,label", "csv")
    yield "train --data emoji.csv --test emoji_test.csv"
    yield ("train --data emoji.csv --test emoji_test.csv --text-column text --label-separator , --min-chars 1 "
           "--max-chars 2")


def spelling():
    rows = []
    with open("/usr/share/hunspell/en_US.dic", encoding="utf-8", errors="replace") as file:
        for line in list(file)[1:]:
            word, _, flags = line.strip().partition("/")
            rows.append(f"{','.join(sorted(set(flags)))}\t{word}")
    split("spelling", rows, ending="tsv")
    yield "train --data spelling.tsv --test spelling_test.tsv"
    yield ("train --data spelling.tsv --test spelling_test.tsv --header no --label-column 0 --text-column 1 "
           "--label-separator , --min-chars 1 --max-chars 4")


def weka():
    yield "train --data /usr/share/doc/weka/examples/iris.arff"
    subprocess.run("sed '1,/^ *@[Dd][Aa][Tt][Aa]/d; /^%/d; /^[[:space:]]*$/d' "
                   "/usr/share/doc/weka/examples/iris.arff >rows.csv", shell=True, check=True)
    yield "train --data rows.csv --header no --label-column -1"


def packages():
    text = subprocess.run(["dpkg-query", "-W", "-f", "${Section}\t${Package}\t${Installed-Size}\t${binary:Summary}\n"],
                          capture_output=True, text=True, check=True).stdout
    split("packages", text.splitlines(), "section\tpackage\tsize\tsummary", "tsv")
    yield "train --data packages.tsv --test packages_test.tsv --label-column section"
    yield ("train --data packages.tsv --test packages_test.tsv --label-column section --text-column summary "
           "--ignore-columns package,size")


def anes():
    yield f"train --data {ANES}"
    yield f"train --data {ANES} --label-column PID"
    yield f"train --data {ANES} --label-column \"'PID'\""


SETS = (digits, iris, unicode_data, oui, pci, wordnet, emoji, spelling, weka, packages, anes)


def main():
    program = os.path.abspath(sys.argv[1])
    folder = sys.argv[2] if len(sys.argv) > 2 else "strangers"
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for each in SETS:
        try:
            commands = list(each())
        except FileNotFoundError as absent:
            print(f"## {each.__name__}: left out, {absent.filename} is absent\n")
            continue
        print(f"## {each.__name__.replace('_', ' ')}\n")
        for command in commands:
            started = time.monotonic()
            got = subprocess.run(f"{program} {command}", shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, timeout=1800, check=False)
            seconds = time.monotonic() - started
            print(f"```\n$ xsoftmax {command}\n{got.stdout.rstrip()}")
            print(f"(status {got.returncode}, {seconds:.1f} s)\n```\n", flush=True)


if __name__ == "__main__":
    main()
