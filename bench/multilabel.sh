#!/bin/sh
# Data with several labels a row: the library beside fastText's and LIBLINEAR's one-vs-rest on the same rows in one run.
#
#   sh bench/multilabel.sh [DATA...] [--json] [--threads T] [--limit SECONDS] [--only NAME,...]
#
# DATA is as in bench/compare.sh, or debian-depends, which examples/debian-packages.sh makes from this machine's package
# lists. Without DATA: bibtex, delicious, corel5k, hmc-cellcycle-go, kg-fb15k237 and debian-depends. On a fresh Debian
# it first installs what is missing. See doc/guide/benchmarks.md for how to read the table.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"
need_packages fasttext:fasttext >&2 || say "Going on without fasttext." >&2
# Debian's Python: another one, earlier on PATH, would not see Debian's packages.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
for package in python3-numpy:numpy python3-liblinear:liblinear; do
    "$python" -c "import ${package#*:}" 2>/dev/null && continue
    say "Installing ${package%%:*} ..." >&2
    apt_install "${package%%:*}" >/dev/null 2>&1 </dev/null ||
        { quietly apt_update && quietly apt_install "${package%%:*}"; } || say "Going on without ${package%%:*}." >&2
done

build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
program=$build/examples/xsoftmax
[ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"

exec "$python" "$root/bench/compare/multilabel.py" --program "$program" --packages "$root/examples/debian-packages.sh" \
    --folder "$build/debian-depends" "$@"
