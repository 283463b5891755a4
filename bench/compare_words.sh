#!/bin/sh
# Word vectors: the library's skip-gram beside fastText's, on the same text, one after the other, with the same
# threads, dimension, window, negatives, epochs and learning rate; time and scores, and the library's loss by epoch.
#
#   sh bench/compare_words.sh [--text FILE] [--threads T] [--epochs E] [--seeds N] [--power P] [--batch B] [--json]
#
# Without --text: the Brown corpus and Penn Treebank's training text, from $XSM_DATA or ../shared/data. Says what it
# installs on a fresh Debian.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 fasttext:fasttext >&2 || fail "the packages above are needed"
build=$root/build
say "Building in $build ..." >&2
build_tree "$build" -Dtests=false >&2 ||
    fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
program=$build/examples/word_vectors
[ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"

exec python3 "$root/bench/compare/words.py" --program "$program" --data "${XSM_DATA:-$root/../shared/data}" "$@"
