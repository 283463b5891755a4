#!/bin/sh
# Builds the library for release and reproduces tables and figures of the papers, the paper's numbers beside ours. On a
# fresh Debian it first installs missing packages.
#
#   sh bench/papers/run.sh NAME... [--json] [--quick] [--threads N]    without a name it lists them
#
# See doc/measurements/papers.md.
#
# Tables go to standard output (with --json only the cells, one per line), CSV files and plots to build-bench/papers.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages gnuplot-nox:gnuplot >&2 || fail "the packages above are needed"

build_bench
folder=$build/papers

sh "$root/bench/papers/figures.sh" "$build/bench/papers/papers" "$folder" "$@"
