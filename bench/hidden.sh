#!/bin/sh
# Linear and embedding models of this library, and fastText, on the same rows in one run; see bench/compare/hidden.py.
#
#   sh bench/hidden.sh [--json] [--threads T] [--sets NAME,...] [--only NAME,...] [--held]
#
# Needs kg-fb15k237 and s3rec-beauty in $XSM_DATA or ../shared/data. On a fresh Debian it first installs what is missing,
# fastText among it. --held judges by the held-back rows that the settings were chosen on, not by the test rows.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"
need_packages fasttext:fasttext >&2 || say "Going on without fastText." >&2
# Debian's Python: another one, earlier on PATH, would not see Debian's NumPy.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if ! "$python" -c 'import numpy' 2>/dev/null; then
    say "Installing python3-numpy ..." >&2
    apt_install python3-numpy >/dev/null 2>&1 </dev/null || { quietly apt_update && quietly apt_install python3-numpy; } ||
        fail "NumPy is needed"
fi
build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
exec "$python" "$root/bench/compare/hidden.py" --program "$build/examples/xsoftmax" "$@"
