#!/bin/sh
# Data with several labels per row: compares the library with one-vs-rest of fastText and LIBLINEAR, on the same rows in
# one run.
#
#   sh bench/multilabel.sh [DATA...] [--json] [--threads T] [--limit SECONDS] [--only NAME,...]
#
# DATA is as in bench/compare.sh, or debian-depends, which examples/debian-packages.sh makes from this machine's package
# lists. Without DATA: bibtex, delicious, corel5k, hmc-cellcycle-go, kg-fb15k237 and debian-depends. Where $PECOS names a
# working checkout of PECOS, its XR-Linear is among the programs. On a fresh Debian it first installs missing packages.
# See doc/measurements/multilabel.md for how to read the table.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need python3-numpy:numpy.py
want fasttext:fasttext python3-liblinear:liblinear.py
[ -z "${PECOS-}" ] || need python3-sklearn:sklearn.py python3-tqdm:tqdm.py
build_program xsoftmax

exec "$python" "$root/bench/compare/multilabel.py" --program "$program" --packages "$root/examples/debian-packages.sh" \
    --folder "$build/debian-depends" "$@"
