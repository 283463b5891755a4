#!/bin/sh
# What calibration does to the default command's models on test rows: a table of doc/measurements/automatic_choice.md; see
# bench/compare/calibration.py.
#
#   sh bench/calibration.sh [DATA...] [--json] [--threads T] [--limit SECONDS]
#
# DATA is as for bench/defaults.sh; without it, the first labels of all sets of $XSM_DATA or ../shared/data.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_program xsoftmax

exec "$python" "$root/bench/compare/calibration.py" --program "$program" "$@"
