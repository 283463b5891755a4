"""What convert writes, read by a reader of its own, and read again by convert."""
import os
import subprocess
import sys
import tempfile

xsoftmax = os.path.abspath(sys.argv[1])
ROWS = [([3, 1, 19], {0: 1.0, 3: -2.5}), ([], {2: 1e-7}), ([7], {}), ([], {}), ([0], {1: 3.0}), ([], {0: 0.5, 1: 2.0})]
NAMES = ["a\tb", " blank before", "quote \" and, comma", "01", "1", "ä", "x:1", "-0", "plain", "=1+1"]


def convert(*arguments):
    done = subprocess.run([xsoftmax, "convert", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"convert {' '.join(arguments)}: {done.stderr}")


def sparse(path, header, base=0):
    """As parsers of XC text do it: labels are what stands before the first blank."""
    with open(path) as file:
        lines = file.read().split("\n")
    assert lines.pop() == ""
    if header:
        assert lines.pop(0) == header, header
    rows = []
    for line in lines:
        labels, blank, features = line.partition(" ")
        pairs = [pair.split(":") for pair in features.split()]
        rows.append(([int(label) for label in labels.split(",") if labels],
                     {int(index) - base: float(value) for index, value in pairs}))
    return rows


def table(path, separator):
    """RFC 4180, field by field."""
    with open(path, newline="") as file:
        text = file.read()
    rows, row, field, i = [], [], "", 0
    while i < len(text):
        if text[i] == '"' and field == "":
            i += 1
            while text[i] != '"' or text[i + 1:i + 2] == '"':
                field += text[i]
                i += 2 if text[i] == '"' else 1
            i += 1
        if text[i] in (separator, "\n"):
            row.append(field)
            field = ""
            if text[i] == "\n":
                rows.append(row)
                row = []
        else:
            field += text[i]
        i += 1
    assert not row and not field
    return rows


def same(what, a, b):
    if a != b:
        sys.exit(f"{what}: {a} and not {b}")
    print("ok", what)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    with open("rows.xc", "w") as file:
        file.write(f"{len(ROWS)} 4 20\n")
        for labels, features in ROWS:
            file.write(",".join(map(str, labels)) + " " + " ".join(f"{j}:{v}" for j, v in features.items()) + "\n")
    convert("--data", "rows.xc", "--to", "cache", "--output", "cache")
    convert("--data", "cache", "--to", "xc", "--output", "out.xc")
    same("xc", sparse("out.xc", f"{len(ROWS)} 4 20"), ROWS)
    convert("--data", "out.xc", "--to", "xc", "--output", "again.xc")
    same("xc again", open("again.xc").read(), open("out.xc").read())
    # The first feature of a row without labels is no label with a weight.
    convert("--data", "out.xc", "--label-weights", "--to", "cache", "--output", "weighted")
    told = subprocess.run([xsoftmax, "info", "weighted"], capture_output=True, text=True).stdout.split("\n")
    same("labels with weights", [line.split()[-1] for line in told if "without a label" in line], ["3"])

    filled = [row for row in ROWS if row[0] or row[1]]
    with open("filled.xc", "w") as file:
        file.writelines(line + "\n" for line in open("out.xc").read().split("\n")[1:-1] if line != " ")
    for base in (0, 1):
        convert("--data", "filled.xc", "--format", "xc", "--to", "libsvm", "--to-index-base", str(base), "--output", "out.svm")
        same(f"libsvm from {base}", sparse("out.svm", None, base), filled)
        convert("--data", "out.svm", "--index-base", str(base), "--format", "libsvm", "--to", "xc", "--output", "again.xc")
        same(f"libsvm from {base} again", sparse("again.xc", f"{len(filled)} 4 20"), filled)

    with open("named.csv", "w") as file:
        file.write("label,a,b\n")
        for i, name in enumerate(NAMES + [""]):
            file.write(f'"{name.replace(chr(34), chr(34) * 2)}",{i},{-i / 4}\n')
    wanted = [[float(i), -i / 4, name] for i, name in enumerate(NAMES + [""])]
    for to, separator in (("csv", ","), ("tsv", "\t")):
        convert("--data", "named.csv", "--to", to, "--output", "out")
        read = table("out", separator)
        same(f"{to} columns", read[0], ["a", "b", "label"])
        same(to, [[float(a), float(b), name] for a, b, name in read[1:]], wanted)
        convert("--data", "out", "--to", "cache", "--output", "cache")
        convert("--data", "cache", "--to", to, "--output", "again")
        same(f"{to} again", open("again").read(), open("out").read())
    # A file of names beside numbers, there and back.
    convert("--data", "named.csv", "--to", "xc", "--output", "out.xc", "--names-to", "names")
    names = open("names").read().split("\n")[:-1]
    same("names", names, sorted(NAMES, key=str.encode))
    rows = sparse("out.xc", f"{len(wanted)} 2 {len(NAMES)}")
    same("rows beside names", [names[labels[0]] for labels, _ in rows if labels], NAMES)
    convert("--data", "out.xc", "--label-names", "names", "--to", "csv", "--output", "again")
    same("names again", [row[2] for row in table("again", ",")[1:]], NAMES + [""])
    # Models have the names, too: whole ones are predicted.
    subprocess.run([xsoftmax, "train", "--data", "named.csv", "--estimator", "softmax", "--eta", "1", "--model", "model"],
                   check=True, capture_output=True)
    convert("--data", "named.csv", "--like", "model", "--to", "csv", "--output", "again")
    same("names by a model", [row[2] for row in table("again", ",")[1:]], NAMES + [""])
    # What a file says of itself is a line each, without control characters.
    with open("column.csv", "w") as file:
        file.write('a,"l\x1b[31m\nbias no"\n1,u\n3,v\n')
    subprocess.run([xsoftmax, "train", "--data", "column.csv", "--label-column", "l\x1b[31m\nbias no", "--estimator", "softmax",
                    "--eta", "1", "--model", "model"], check=True, capture_output=True)
    told = subprocess.run([xsoftmax, "info", "model"], check=True, capture_output=True, text=True).stdout.split("\n")
    same("a column's name", [line.split(None, 1)[1] for line in told if "label_column" in line], ["l [31m bias no"])
