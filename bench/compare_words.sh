#!/bin/sh
# Word vectors: the library's skip-gram and fastText's, on the same text, one after the other, with the same threads,
# dimension, window, negatives, epochs and learning rate; prints time, scores on word tasks, and loss by epoch. Each run
# is reported and saved when it ends: after an interruption, the table covers the completed seeds. About two minutes a
# seed on two otherwise idle threads.
#
#   sh bench/compare_words.sh [--text FILE] [--threads T] [--epochs E] [--seeds N] [--power P] [--batch B] [--spread S]
#                             [--ends] [--json]
#
# Without --text: the lines of the Brown corpus and Penn Treebank's training text, mixed, from $XSM_DATA or
# ../shared/data. Rare words are removed first, so that the epochs of both have the same words. The table is printed on
# standard output; runs, losses and, with --power 0.5, which makes losses comparable, plots (SVG and PNG) are written to
# build/compare_words. On a fresh Debian it prints what it installs.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need fasttext:fasttext
want gnuplot-nox:gnuplot
build_program word_vectors

exec "$python" "$root/bench/compare/words.py" --program "$program" --folder "$build/compare_words" \
    --data "${XSM_DATA:-$root/../shared/data}" "$@"
