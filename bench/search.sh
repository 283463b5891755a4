#!/bin/sh
# Measures the cost of searches as a function of K, and their recall with a twentieth of the rows scored: on a
# recommender's vectors, and on weights that `xsoftmax train` has trained with its defaults on real sets.
#
#   sh bench/search.sh [LARGEST-K] [--recall]     see doc/measurements/search_indexes.md; --recall leaves the first part out
#
# Real data comes from $XSM_DATA or ../shared/data; missing sets are skipped. On a fresh Debian it first installs missing
# packages. About two and a half minutes on an otherwise idle machine.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

largest=1000000
cost=yes
for word in "$@"; do
    case $word in
    --recall) cost=no ;;
    [1-9]*) largest=$word ;;
    *) fail "no option '$word'; there are LARGEST-K, a number, and --recall" ;;
    esac
done

# shellcheck disable=SC2086,SC2154
need_packages $build_packages >&2 || fail "the packages above are needed"
build_bench

[ "$cost" = no ] || "$build/bench/bench_search" "$largest" || exit 1

data=${XSM_DATA:-$root/../shared/data}
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-search.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

if [ -f "$data/mips-items/items_12101x64.f32.gz" ]; then
    gzip -dc "$data/mips-items/items_12101x64.f32.gz" >"$work/rows" &&
        gzip -dc "$data/mips-items/queries_22363x64.f32.gz" >"$work/queries" || exit 1
    printf 'mips-items: '
    "$build/bench/bench_search" "$work/rows" "$work/queries" 64 || exit 1
else
    say "skipped: mips-items is not in $data" >&2
fi

# Data sets, and a twentieth of their number of classes.
for item in delicious:18 kg-fb15k237:560 s3rec-beauty:605; do
    name=${item%:*}
    if [ ! -f "$data/$name/${name}_train.txt.gz" ]; then
        say "skipped: $name is not in $data" >&2
        continue
    fi
    "$build/examples/xsoftmax" train --data "$data/$name/${name}_train.txt.gz" --labels first --pairs 0 --model "$work/model" \
        >/dev/null 2>"$work/err" || {
        cat "$work/err" >&2
        fail "training on $name failed"
    }
    "$build/examples/xsoftmax" evaluate --model "$work/model" --data "$data/$name/${name}_test.txt.gz" --labels first \
        --index spherical --probe "${item#*:}" >"$work/out" 2>"$work/err" || {
        cat "$work/err" >&2
        fail "evaluating on $name failed"
    }
    sed -n "s/^model *[^:]*: */$name: /p; /^index/p; /^  recall/p" "$work/out"
done
