#!/bin/sh
# Data larger than memory: generates rows, converts them to a cache through a pipe, and trains on the cache. Prints the
# peak memory of each step.
#
#   sh bench/large.sh [ROWS [FOLDER]]     ten million rows, a cache of 8 GB, by default; FOLDER needs twice that for a while
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

build_large

rows=${1:-10000000}
work=$(mktemp -d "${2:-${TMPDIR:-/tmp}}/xsoftmax-large.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
say "Generating $rows rows, and converting them as they come ..." >&2
"$build/bench/bench_generate" "$rows" | "$build/examples/xsoftmax" convert --data - --to cache --output "$work/cache" ||
    fail "converting failed"
awk -v size="$(wc -c <"$work/cache")" 'BEGIN { printf "cache: %.2f GB\n", size / 1e9 }'
"$build/examples/xsoftmax" train --data "$work/cache" --estimator sampled-softmax --eta 0.5 --epochs 1 --json >"$work/json" ||
    fail "training failed"
python3 - "$work/json" <<'END'
import json, sys
said = json.load(open(sys.argv[1]))
print(f"training: peak memory {said['peak_bytes'] / 2**20:.0f} MiB, {said['train_seconds']:.1f} s for an epoch, "
      f"log-loss {said['train']['log_loss']:.4f}, error {100 * said['train']['error']:.2f} %")
END
