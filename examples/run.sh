#!/bin/sh
# Run this first: it builds the library, trains three models on made-up data, then one on the package lists that every
# Debian machine has. On a fresh Debian it first installs the missing packages.
#
#   sh examples/run.sh
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

build=$root/build
xsoftmax=$build/examples/xsoftmax
data=$build/debian

# show COMMAND...: prints a command, with paths as seen from the source tree, and runs it there.
show() {
    for word in "$@"; do
        shift
        set -- "$@" "${word#"$root"/}"
    done
    printf '\n$ %s\n' "$*"
    (cd "$root" && "$@")
}

# Prints packages with their known labels and the model's predictions.
tell() {
    "$xsoftmax" predict --model "$data/maintainers.safetensors" --data "$data/test.txt" --top 3 --probabilities \
        >"$data/predictions.tsv"
    sed '1d; s/ .*//' "$data/test.txt" >"$data/test-labels.txt"
    awk -F '\t' -v folder="$data" '
        function person(text) {
            sub(/ *<[^>]*>.*/, "", text)
            return text
        }
        BEGIN {
            while ((getline line <(folder "/labels.txt")) > 0)
                name[labels++] = line
            while ((getline line <(folder "/test-labels.txt")) > 0)
                truth[rows++] = name[line]
            while ((getline line <(folder "/test-packages.tsv")) > 0) {
                tab = index(line, "\t")
                package[n] = substr(line, 1, tab - 1)
                description[n++] = substr(line, tab + 1)
            }
        }
        {
            # "label:value": the value follows the last colon, a label may have colons of its own.
            said = ""
            hit = 0
            for (i = 1; i <= NF; i++) {
                value = $i
                sub(/.*:/, "", value)
                label = substr($i, 1, length($i) - length(value) - 1)
                hit = hit || label == truth[NR - 1]
                right += i == 1 && label == truth[NR - 1]
                if (i == 1 || value + 0 >= 0.01)
                    said = said sprintf("%s%s (%.0f %%)", i > 1 ? ", " : "", person(label), 100 * value)
            }
            third += hit
            # A few, evenly spaced over the file.
            if (NR % int(rows / 8) == int(rows / 16)) {
                printf "\n%s: %s\n", package[NR - 1], description[NR - 1]
                printf "    maintainer  %s\n    predicted   %s\n", person(truth[NR - 1]), said
            }
        }
        END {
            printf "\nOf %d packages that it had not seen, it names the maintainer of %d (%.1f %%) at once,\n", rows,
                right, 100 * right / rows
            printf "and of %d (%.1f %%) among its first three.\n", third, 100 * third / rows
        }' "$data/predictions.tsv"
}

# shellcheck disable=SC2086
need_packages $build_packages || fail "the packages above are needed"
say "Building in $build ..."
build_tree "$build" -Dtests=false || build_failed "$build" -Dtests=false
for program in "$xsoftmax" "$build/examples/quickstart"; do
    [ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"
done

say
say "1. A thousand classes, made up, and three ways to train."
show "$build/examples/quickstart" "$build/quickstart.safetensors"

say
say "2. Who maintains a Debian package, by the words that describe it?"
# Images of Debian often contain no package lists.
if command -v apt-cache >/dev/null 2>&1 && [ -z "$(apt-cache dumpavail 2>/dev/null | head -n 1)" ]; then
    say "This machine has no package lists yet: fetching them ..."
    quietly apt_update || true
fi
if ! command -v apt-cache >/dev/null 2>&1 || [ -z "$(apt-cache dumpavail 2>/dev/null | head -n 1)" ]; then
    say "Skipped: this machine has no apt, or no package lists and no way to fetch them."
    say
    say "The library is built and part 1 ran. Next: '$xsoftmax train --help' for your own data,"
    say "README.md for the library in a program of yours, sh tests/run.sh for the tests."
    exit 0
fi
show sh "$root/examples/debian-packages.sh" "$data"
# All settings are chosen on held-back training rows; the test rows are not used.
show "$xsoftmax" train --data "$data/train.txt" --test "$data/test.txt" --label-names "$data/labels.txt" \
    --model "$data/maintainers.safetensors"
tell

say
say "The library is built, and a model that tells maintainers from words is in $data."
say "Next: '$xsoftmax train --help' for your own data, README.md for the library in a program of yours,"
say "sh tests/run.sh for the tests."
