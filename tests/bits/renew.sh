#!/bin/sh
# Writes hashes.txt anew, after bits have changed on purpose, and says how many lines changed.
#
#   sh tests/bits/renew.sh [BUILD]     BUILD: a configured build directory; default: build-tests, that of tests/run.sh
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build-tests}
[ -f "$build/build.ninja" ] || {
    echo "no build directory $build: run sh tests/run.sh first, or name one" >&2
    exit 1
}
ninja -C "$build" tests/bits/bits
"$build/tests/bits/bits" --write "$root/tests/bits/hashes.txt"
git -C "$root" diff --stat -- tests/bits
