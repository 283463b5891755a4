#!/bin/sh
# Word vectors: the library's skip-gram beside fastText's, on the same text, one after the other, with the same
# threads, dimension, window, negatives, epochs and learning rate; time, scores and loss by epoch. Each run is told of
# as it ends, and kept: when it is interrupted, the table is of the seeds that are done. About two minutes a seed on
# two threads of their own.
#
#   sh bench/compare_words.sh [--text FILE] [--threads T] [--epochs E] [--seeds N] [--power P] [--batch B] [--spread S]
#                             [--ends] [--json]
#
# Without --text: the lines of the Brown corpus and Penn Treebank's training text, mixed, from $XSM_DATA or
# ../shared/data. Rare words are taken out first, so that the epochs of both have the same words. The table goes to
# standard output, runs, losses and, with --power 0.5, which makes losses comparable, plots (SVG and PNG) to
# build/compare_words. Says what it installs on a fresh Debian.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need fasttext:fasttext
want gnuplot-nox:gnuplot
build_program word_vectors

exec "$python" "$root/bench/compare/words.py" --program "$program" --folder "$build/compare_words" \
    --data "${XSM_DATA:-$root/../shared/data}" "$@"
