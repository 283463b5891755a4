#!/bin/sh
# Text classification: compares xsoftmax and fastText on the same lines in one run; see bench/compare/text.py.
#
#   sh bench/text.sh [--threads T] [--only 20news|brown] [--fasttext [LR,EPOCHS]] [--ours [ESTIMATOR,TRANSFORM,ETA,EPOCHS]]
#
# Needs $XSM_DATA or ../shared/data. On a fresh Debian it first installs missing packages, including fastText.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need fasttext:fasttext python3-numpy:numpy.py
build_program xsoftmax

exec "$python" "$root/bench/compare/text.py" --program "$program" "$@"
