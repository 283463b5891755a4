#!/bin/sh
# What `xsoftmax train` makes of each data set when it is told nothing else, beside what others reach there: the table of
# defaults in doc/measurements/automatic_choice.md.
#
#   sh bench/defaults.sh [DATA...] [--json] [--threads T] [--limit SECONDS]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), or the name of one in
# $XSM_DATA or ../shared/data; NAME:all takes all labels of a row. Without any: the sets that have a goal, and the maintainers
# of examples/debian-packages.sh where this machine's apt has package lists.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_program xsoftmax

exec "$python" "$root/bench/compare/defaults.py" --program "$program" "$@"
