#!/bin/sh
# Compares training with PyTorch's, on the same rows, model, loss, batches and optimizer: the softmax over all classes, and over
# a thousand that the rows of a batch share.
#
#   sh bench/compare_torch.sh [--sets NAME,...] [--hidden H] [--epochs E] [--threads T] [--rates X,...]
#
# Sets are kg-fb15k237, s3rec-beauty and others of one or more labels a row in $XSM_DATA or ../shared/data. Prints a table, and
# writes build/compare_torch/: every epoch (CSV), and loss against time (SVG and PNG). About half an hour. On a fresh Debian it
# first installs missing packages, PyTorch among them.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need python3-numpy:numpy.py python3-torch:torch.py \
    "libopenblas0-pthread:/usr/lib/$(${CC:-cc} -dumpmachine)/openblas-pthread/libopenblas.so.0" # without it PyTorch is ten times slower
want gnuplot-nox:gnuplot
build_program xsoftmax

export XSOFTMAX_LIBRARY="$build/lib/libxsoftmax.so" XSOFTMAX_ABI="$build/lib/xsoftmax-abi.json" PYTHONPATH="$root/examples/python"
exec "$python" "$root/bench/compare/training.py" --folder "$build/compare_torch" \
    --data "${XSM_DATA:-$root/../shared/data}" "$@"
