#!/bin/sh
# Compares what the papers' pages show with what a run printed, and names each number that no run gives.
#
#   sh bench/papers/run.sh all --json >RUN.json
#   sh bench/papers/check.sh RUN.json [--renew] [PAGE.md...]     without a page: all pages of the papers
#
# With --renew it writes the run's numbers into the tables of the pages. Then read what stands beside them.
# check.py says how pages name the cells that their tables show. Several runs may be put together: cat A.json B.json >RUN.json
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
if [ $# -eq 0 ] || [ ! -f "$1" ]; then
    echo "usage: sh check.sh RUN.json [--renew] [PAGE.md...]; RUN.json is what run.sh all --json printed" >&2
    exit 2
fi
run=$1
shift
renew=
if [ "${1-}" = --renew ]; then
    renew=$1
    shift
fi
[ $# -gt 0 ] || set -- "$here"/../../doc/measurements/papers*.md "$here"/../../doc/guide/which_estimator.md
exec python3 -B "$here/check.py" "$run" ${renew:+"$renew"} "$@"
