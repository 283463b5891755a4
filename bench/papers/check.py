#!/usr/bin/python3
"""Compares the numbers of the papers' pages with those of a run: check.sh calls this.

    check.py RUN.json [--renew] PAGE.md...

RUN.json is what `sh bench/papers/run.sh all --json` prints. A table of a page is compared if the line before it says which
cells it shows, as a comment that no reader sees:

    <!-- cells FIGURE: row "Bibtex, $c", column "$r" within 2 % -->

$r is the text of the table's first column, $c that of its head, both without markup. A number in brackets is the paper's. A
number may be as far from the run's as its last digit is worth, or as the bound says; numbers of columns or rows whose name
is a time ("s", "seconds", "ms", "us") or "epochs" are free, and so are all numbers of a table `within free`. `ratio N`
allows a factor of N either way. A table whose numbers no run gives is named by

    <!-- no run: WHY -->

and one of words by

    <!-- words -->

The status is 1 if a number differs, is of no cell, or stands in a table that says neither. With --renew each number of ours
that differs, and each that depends on the machine, is replaced by the run's, to as many digits; what the text around says
of them is left to whoever reads it.
"""
import json
import math
import re
import sys

CELLS = re.compile(r'<!-- cells (\S+): row "([^"]*)", column "([^"]*)"(?: within (free|[\d.]+ %))?(?: ratio ([\d.]+))? -->')
NO_RUN = re.compile(r"<!-- no run: (.*) -->")
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|-?\.\d+")
# Which depend on the machine: times, and the epochs of methods that have a given time.
TIMES = {"s", "s an epoch", "seconds", "ms", "us", "minutes", "epochs"}


def plain(text):
    return re.sub(r"[*`]|</?b>|\\(?=@)", "", text).strip()


def value_of(text):
    """A number as it is printed, and half of what its last digit is worth; of 17,380 that is the 8, of 1,000 the first 0."""
    text = text.replace(",", "")
    mantissa = text.split("e")[0]
    digits = len(mantissa.split(".")[1]) if "." in mantissa else 0
    scale = 10.0 ** int(text.split("e")[1]) if "e" in text else 1.0
    if "." not in mantissa:
        whole = mantissa.lstrip("-")
        digits = -max(0, min(len(whole) - len(whole.rstrip("0")), len(whole) - 2))
    return float(text), 0.5 * 10.0 ** -digits * scale


def cells_of(line):
    return [plain(c) for c in line.strip().strip("|").split("|")]


def printed(number, like, wide):
    """The number as `like` is printed: with as many decimals, or as many significant digits where it is ten times another."""
    old = like.replace(",", "")
    if number is None:
        return "-"
    was = abs(float(old))
    if "e" in old or (0 < abs(number) < 1e-3 and not was < 1e-3 and wide):
        mantissa = old.split("e")[0]
        return f"{number:.{len(mantissa.split('.')[1]) if '.' in mantissa and 'e' in old else 0}e}"
    decimals = len(old.split(".")[1]) if "." in old else 0
    if wide and number != 0 and was != 0:  # times and the like: as many significant digits
        digits = len(re.sub(r"^[-.0]*", "", old).replace(".", ""))
        if "." not in old:
            digits = max(2, len(old.lstrip("-").rstrip("0")))
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
        number = round(number, digits - 1 - math.floor(math.log10(abs(number))))
    if wide and number == int(number):
        decimals = 0
    elif decimals == 0 and abs(number) < 10:  # where an integer was
        return f"{number:.3g}"
    text = f"{number:,.{decimals}f}" if "," in like or abs(number) >= 10000 else f"{number:.{decimals}f}"
    return re.sub(r"^(-?)0\.", r"\1.", text) if re.match(r"-?\.", like) else text


class Check:
    def __init__(self, run, renew=False):
        self.renew = renew
        self.cells = {}
        for line in open(run, encoding="utf-8"):
            if line.startswith("{"):
                c = json.loads(line)
                self.cells[c["figure"], c["row"], c["column"]] = c
        self.figures = {f for f, _, _ in self.cells}
        self.compared = self.free = self.without = 0
        self.missing = set()
        self.said = set()
        self.wrong = []

    def number(self, where, text, want, bound, ratio, free):
        value, slack = value_of(text)
        if free:
            self.free += 1
            return
        self.compared += 1
        if want is None:
            self.wrong.append(f"{where}: {text}, where the run has none")
        elif ratio:
            if value != want and not (value > 0 and want > 0 and abs(math.log(value / want)) <= math.log(ratio)):
                self.wrong.append(f"{where}: {text}, not within a factor of {ratio} of the run's {want:.4g}")
        elif abs(value - want) > slack * 1.000001 + bound * abs(want):
            self.wrong.append(f"{where}: {text}, but the run has {want:.4g}")

    def cell(self, where, note, first, head, text):
        figure, row, column, within, ratio = note.groups()
        free = within == "free" or any(plain(t).split(", ")[-1] in TIMES for t in (first, head))
        bound = 0.0 if not within or free else float(within[:-2]) / 100
        numbers = NUMBER.findall(text.split("(")[0])
        self.renewed = None
        bracket = re.search(r"\(([^)]*)\)", text)
        if not numbers and text not in ("-",) and not bracket:
            return
        key = (figure, row.replace("$r", first).replace("$c", head), column.replace("$r", first).replace("$c", head))
        c = self.cells.get(key)
        if c is None:
            self.wrong.append(f"{where}: {text}: no run gives {key[0]}: '{key[1]}', '{key[2]}'")
            return
        if self.renew and text.split("(")[0].strip() == "-" and c["ours"] is not None:
            self.renewed = text.replace("-", f"{c['ours']:.3g}", 1)
        if text.split("(")[0].strip() == "-":
            self.compared += 1
            if c["ours"] is not None:
                self.wrong.append(f"{where}: -, but the run has {c['ours']:.4g}")
        elif numbers:
            wrong = len(self.wrong)
            self.number(where, numbers[0], c["ours"], bound, ratio and float(ratio), free)
            if self.renew and (free or len(self.wrong) > wrong or ratio or bound >= 0.1):
                match = NUMBER.search(text)
                wide = free or ratio is not None
                self.renewed = text[:match.start()] + printed(c["ours"], match.group(0), wide) + text[match.end():]
        if bracket and NUMBER.search(bracket.group(1)):
            self.number(where, NUMBER.search(bracket.group(1)).group(0), c["paper"], 0, None, False)

    def page(self, path):
        name = path.rsplit("/", 1)[-1]
        note = why = head = None
        words = False
        lines = open(path, encoding="utf-8").read().splitlines(keepends=True)
        for n, line in enumerate(lines, 1):
            if line.startswith("<!--"):
                note, why, words = CELLS.match(line), NO_RUN.match(line), line.strip() == "<!-- words -->"
                if not note and not why and not words:
                    self.wrong.append(f"{name}:{n}: a comment that says nothing of cells: {line.strip()}")
                if note and note.group(1) not in self.figures:
                    self.missing.add(note.group(1))
                head = None
            elif not line.startswith("|"):
                if line.strip():
                    note = why = None
                    words = False
                head = None
            elif head is None:
                head = cells_of(line)
            elif not re.match(r"^\|[-| :]+\|$", line.strip()):
                row = cells_of(line)
                for i, text in enumerate(row[1:], 1):
                    where = f"{name}:{n}"
                    if note and note.group(1) in self.missing:
                        self.without += bool(NUMBER.search(text))
                    elif note:
                        self.cell(where, note, row[0], head[i] if i < len(head) else "", text)
                        if self.renewed is not None:
                            lines[n - 1] = put(lines[n - 1], i, self.renewed)
                    elif why:
                        self.without += bool(NUMBER.search(text))
                    elif NUMBER.search(text) and not words:
                        self.wrong.append(f"{where}: {text}: no run gives it, and the table says neither whence nor why")
                if why and (name, why) not in self.said:
                    self.said.add((name, why))
                    print(f"{name}:{n}: no run gives this table: {why.group(1)}")
        if self.renew:
            open(path, "w", encoding="utf-8").write("".join(lines))


def put(line, column, plainly):
    """A line of a table with another number in that column, whose markup stays."""
    cells = line.rstrip("\n").split("|")
    old = cells[column + 1]
    was, now = NUMBER.search(old), NUMBER.search(plainly)
    if now is None or was is None:
        cells[column + 1] = f" {plainly} "
    else:
        cells[column + 1] = old[:was.start()] + now.group(0) + old[was.end():]
    return "|".join(cells) + "\n"


def main():
    renew = "--renew" in sys.argv
    check = Check(sys.argv[1], renew)
    for path in sys.argv[2:]:
        if path != "--renew":
            check.page(path)
    if renew:
        print("pages are renewed; run it again without --renew")
        return
    for figure in sorted(check.missing):
        print(f"the run has no {figure}: its numbers are not compared")
    for line in check.wrong:
        print(line)
    print(f"{check.compared} numbers compared, {len(check.wrong)} differ or have no cell; {check.free} free (times); "
          f"{check.without} that this run does not give")
    sys.exit(1 if check.wrong else 0)


main()
