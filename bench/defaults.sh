#!/bin/sh
# The results of `xsoftmax train` with its defaults on each data set, beside those of other programs: the table of defaults
# in doc/measurements/automatic_choice.md.
#
#   sh bench/defaults.sh [DATA...] [--json] [--threads T] [--limit SECONDS]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), or the name of one in
# $XSM_DATA or ../shared/data; NAME:all uses all labels of a row. Without DATA: the sets that have a goal, and the
# maintainers of examples/debian-packages.sh if this machine's apt has package lists.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_program xsoftmax

exec "$python" "$root/bench/compare/defaults.py" --program "$program" "$@"
