#!/bin/sh
# A hundred thousand classes: xsoftmax and fastText's softmax on the same generated lines in one run; see
# bench/compare/many_classes.py.
#
#   sh bench/many_classes.sh [--classes K] [--rows N] [--dimension D] [--threads T] [--only NAME] [--held] [--json] ...
#
# At the default size fastText takes half an hour of processor time. On a fresh Debian it first installs missing
# packages, including fastText.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need fasttext:fasttext python3-numpy:numpy.py
build_program xsoftmax

exec "$python" "$root/bench/compare/many_classes.py" --program "$program" "$@"
