#!/usr/bin/env python3
"""Sets from Debian's packages, as one finds them: what a first command makes of each, and what the last one reaches.

    python3 bench/strangers.py XSOFTMAX [FOLDER]     prints Markdown; sets whose package is not installed are left out

Packages: python3-sklearn unicode-data ieee-data pci.ids wordnet-base unicode-cldr-core hunspell-en-us wamerican weka
python3-statsmodels.
"""
import csv
import os
import subprocess
import sys
import time

import sets
from sets import SKLEARN

ANES = sets.STATSMODELS + "anes96/anes96.csv"


def halves(lines, header=None):
    """Lines to train and to test on, each after the header."""
    top = [header] if header is not None else []
    return [top + [lines[i] for i in some] for some in sets.fifths(len(lines))]


def write(name, lines):
    with open(name, "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in lines)


def split(name, lines, header=None, ending="txt"):
    train, test = halves(lines, header)
    write(f"{name}.{ending}", train)
    write(f"{name}_test.{ending}", test)


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
    split("pci", [f"{vendor}\t{text}" for (vendor,), text in sets.pci()], ending="tsv")
    yield "train --data pci.tsv --test pci_test.tsv"
    yield "train --data pci.tsv --test pci_test.tsv --header no --label-column 0 --text-column 1"


def wordnet():
    split("wordnet", [f"__label__{kind} {gloss}" for (kind,), gloss in sets.wordnet()])
    yield "train --data wordnet.txt --test wordnet_test.txt"


def emoji():
    rows = [(character, ",".join(key.replace(" ", "_") for key in keys)) for character, keys in sets.annotations(["en"])]
    split("emoji", [f'"{character}","{keys}"' for character, keys in rows], "text,label", "csv")
    yield "train --data emoji.csv --test emoji_test.csv"
    yield ("train --data emoji.csv --test emoji_test.csv --text-column text --label-separator , --min-chars 1 "
           "--max-chars 2")


def spelling():
    split("spelling", [f"{','.join(flags)}\t{word}" for flags, word in sets.spelling()], ending="tsv")
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
