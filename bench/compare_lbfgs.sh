#!/bin/sh
# The optimum of the softmax with a ridge: the library's lbfgs beside scikit-learn's LogisticRegression, on the same rows
# with the same threads in one run. Both objectives are computed from the weights, in double, by NumPy.
#
#   sh bench/compare_lbfgs.sh [DATA...] [--json] [--threads T] [--ridge MU] [--repeats N]
#
# DATA as for bench/compare.sh; the default is mnist, bibtex and delicious. Says what it installs on a fresh Debian.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"
# Debian's Python: another one, earlier on PATH, would not see Debian's scikit-learn.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
if ! "$python" -c 'import sklearn' 2>/dev/null; then
    say "Installing python3-sklearn ..." >&2
    apt_install python3-sklearn >/dev/null 2>&1 </dev/null ||
        { quietly apt_update && quietly apt_install python3-sklearn; } || fail "scikit-learn is needed"
fi

build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
program=$build/examples/xsoftmax
[ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"

exec "$python" "$root/bench/compare/lbfgs.py" --program "$program" "$@"
