#!/bin/sh
# Compares the automatic choice of `xsoftmax train`, every estimator of the library, and other programs in Debian, on the
# same rows in one run.
#
#   sh bench/compare.sh DATA... [--json] [--threads T] [--only NAME,...] [--limit SECONDS] [--epochs N]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), the name of one in
# $XSM_DATA or ../shared/data, or debian-maintainers, which examples/debian-packages.sh makes from this machine's package
# lists. SECONDS are processor time. Where $PECOS names a working checkout of PECOS, its XR-Linear is among the
# programs. On a fresh Debian it first installs missing packages, including the other programs.
# See doc/measurements/other_programs.md for how to read the table.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need python3-numpy:numpy.py
want fasttext:fasttext liblinear-tools:liblinear-train python3-sklearn:sklearn.py
[ -z "${PECOS-}" ] || need python3-sklearn:sklearn.py python3-tqdm:tqdm.py
build_program xsoftmax

exec "$python" "$root/bench/compare/compare.py" --program "$program" "$@"
