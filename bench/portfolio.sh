#!/bin/sh
# What each line of the automatic choice's portfolio reaches by itself, what is chosen, and the regret: the table of
# doc/measurements/automatic_choice.md; see bench/compare/portfolio.py.
#
#   sh bench/portfolio.sh [DATA...] [--families] [--json] [--threads T] [--limit SECONDS]
#   sh bench/portfolio.sh --leave-one-out FILE
#
# DATA is as for bench/defaults.sh; without it, all sets of $XSM_DATA or ../shared/data. --families adds made-up rows of
# 2 to 200 features, 1 to 1,000 labels a class, 10^2 to 10^5 classes, and more and less noise. FILE is what --json printed:
# the constants that were fitted to data are fitted without each set in turn, and shown on it.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_large

exec "$python" "$root/bench/compare/portfolio.py" --program "$build/examples/xsoftmax" \
    --generators "$build/bench" "$@"
