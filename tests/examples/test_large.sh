#!/bin/sh
# Data of more than a gigabyte: converting it and training on it takes far less memory than it is large.
#
#   test_large.sh XSOFTMAX
set -u
LC_ALL=C
export LC_ALL
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-large.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
rows=600000
columns=512
most=900

fail() {
    echo "FAILED: $1"
    exit 1
}

# A NumPy file's start: magic bytes, version 1.0, the header's length (118 with its line end, so that 128 bytes come
# before the numbers), the header.
header() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
}

[ "$(df -Pm "$work" | awk 'NR == 2 { print $4 }')" -gt 4000 ] || {
    echo "less than 4 GB on ${TMPDIR:-/tmp}: skipped"
    exit 77
}
# The bytes ??>? are the float32 0.743; labels are the bytes A and B.
{
    header '|i1' "$rows,"
    yes AB | tr -d '\n' | head -c $rows
} >"$work/labels.npy"
said=$({
    header '<f4' "$rows, $columns"
    yes '??>?' | tr -d '\n' | head -c $((rows * columns * 4))
} | "$1" convert --data - --format npy --labels-from "$work/labels.npy" --to cache --output "$work/cache") ||
    fail "converting"
echo "$said"
echo "$said" | awk -v most=$most '{ exit !($NF == "MiB" && $(NF - 1) < most) }' || fail "converting took more than $most MiB"
size=$(wc -c <"$work/cache")
[ "$size" -gt $((rows * columns * 4)) ] || fail "the cache has $size bytes only"
"$1" train --data "$work/cache" --estimator sampled-softmax --epochs 1 --eta 0.01 --json >"$work/json" || fail "training"
peak=$(grep -o '"peak_bytes":[0-9]*' "$work/json" | cut -d : -f 2)
echo "cache $size bytes, training at most $peak"
[ $((peak / 1048576)) -lt $most ] || fail "training took more than $most MiB"
