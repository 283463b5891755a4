#!/bin/sh
# Every estimator of the library, then the programs of other people that Debian has, on the same rows in one run.
#
#   sh bench/compare.sh DATA... [--json] [--threads T] [--only NAME,...] [--limit SECONDS] [--epochs N]
#
# DATA is a folder with NAME_train.txt[.gz] and NAME_test.txt[.gz] (or train.txt and test.txt), or the name of one in
# $XSM_DATA or ../shared/data. On a fresh Debian it first installs what is missing, the peers among it.
# See doc/guide/benchmarks.md for how to read the table.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"
for peer in fasttext:fasttext liblinear-tools:liblinear-train; do
    need_packages "$peer" >&2 || say "Going on without ${peer%%:*}." >&2
done
# Debian's Python: another one, earlier on PATH, would not see Debian's scikit-learn.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if ! "$python" -c 'import sklearn' 2>/dev/null; then
    say "Installing python3-sklearn ..." >&2
    apt_install python3-sklearn >/dev/null 2>&1 </dev/null || { quietly apt_update && quietly apt_install python3-sklearn; } ||
        say "Going on without scikit-learn." >&2
fi

build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
program=$build/examples/xsoftmax
[ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"

exec "$python" "$root/bench/compare/compare.py" --program "$program" "$@"
