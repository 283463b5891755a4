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
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need_programs fasttext:fasttext
build_program word_vectors

exec "$python" "$root/bench/compare/words.py" --program "$program" --data "${XSM_DATA:-$root/../shared/data}" "$@"
