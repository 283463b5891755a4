#!/bin/sh
# What calibration does to the default command's models on test rows: a table of doc/measurements/automatic_choice.md; see
# bench/compare/calibration.py.
#
#   sh bench/calibration.sh [DATA...] [--json] [--threads T] [--limit SECONDS]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), or the name of one in
# $XSM_DATA or ../shared/data; NAME:all uses all labels of a row. Without DATA: the first labels of all sets there.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_program xsoftmax

exec "$python" "$root/bench/compare/calibration.py" --program "$program" "$@"
