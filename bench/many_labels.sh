#!/bin/sh
# Very many labels: rows of Amazon-670K's shape, made up, a label tree trained on them, and what it costs; see
# bench/compare/many_labels.py.
#
#   sh bench/many_labels.sh [NAME=NUMBER]... [--flags TEXT] [--threads T] [--folder DIR] [--json]
#
# NAME=NUMBER is as for bench_generate_labels (bench/generate_labels.c): rows=49045 takes a tenth of the rows. TEXT are
# the flags of `xsoftmax train` that name the method, "--method label-tree --transform unit" by default. Where $PECOS names a
# working checkout of PECOS, its XR-Linear is trained on a tenth of the rows. DIR needs 1 GB for a while.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need python3-numpy:numpy.py
[ -z "${PECOS-}" ] || need python3-sklearn:sklearn.py python3-tqdm:tqdm.py
build_large

exec "$python" "$root/bench/compare/many_labels.py" --program "$build/examples/xsoftmax" \
    --generator "$build/bench/bench_generate_labels" "$@"
