#!/bin/sh
# Builds the library for release and runs the benchmarks. On a fresh Debian it first installs missing packages.
#
#   sh bench/run.sh [NAME...] [--json] [--threads LIST] [--cpu SET]     see doc/guide/benchmarks.md; --list names them all
#
# With --json it prints only results on standard output, one per line.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages >&2 || fail "the packages above are needed"

# For evaluate/blas, which is left out if OpenBLAS is not installed.
need_packages "libopenblas0-pthread:/usr/lib/$(${CC:-cc} -dumpmachine)/openblas-pthread/libopenblas.so.0" >&2 ||
    say "Going on without OpenBLAS." >&2

build_bench

exec "$build/bench/bench" "$@"
