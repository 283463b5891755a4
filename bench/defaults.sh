#!/bin/sh
# What `xsoftmax train` makes of each data set when it is told nothing else, beside what others reach there: the table of
# defaults in doc/guide/training.md.
#
#   sh bench/defaults.sh [DATA...] [--json] [--threads T] [--limit SECONDS]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), or the name of one in
# $XSM_DATA or ../shared/data; NAME:all takes all labels of a row. Without any: the sets that have a goal, and the maintainers
# of examples/debian-packages.sh where this machine's apt has package lists.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"
build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
program=$build/examples/xsoftmax
[ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"

exec python3 "$root/bench/compare/defaults.py" --program "$program" "$@"
