#!/bin/sh
# Compares the ABI of an installed library, built with debug information, with that of the last release:
#
#   sh tests/structure/check-abi.sh PREFIX            fails when a program built against the last release would not run
#   sh tests/structure/check-abi.sh PREFIX --write    describes this release in doc/abi/, to be committed with it
#
# Ends with 77 where there is nothing to compare with, or no tool to do it.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
[ $# -ge 1 ] || { echo "usage: sh tests/structure/check-abi.sh PREFIX [--write]" >&2; exit 2; }
prefix=$1
if ! command -v abidw >/dev/null 2>&1; then
    echo "skipped: there is no abidw (Debian: abigail-tools)"
    exit 77
fi
library=$(find "$prefix" -name libxsoftmax.so | head -n 1)
[ -n "$library" ] || { echo "there is no libxsoftmax.so below $prefix" >&2; exit 1; }

describe() {
    abidw --headers-dir "$prefix/include" --drop-private-types --no-comp-dir-path --short-locs "$library" --out-file "$1"
}

if [ "${2-}" = --write ]; then
    version=$(PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig pkg-config --modversion xsoftmax) || exit 1
    mkdir -p "$root/doc/abi"
    describe "$root/doc/abi/xsoftmax-${version%.*}.abi"
    exit
fi
last=$(find "$root/doc/abi" -name 'xsoftmax-*.abi' 2>/dev/null | sort -V | tail -n 1)
if [ -z "$last" ]; then
    echo "skipped: no release has been described in doc/abi yet"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-abi.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
describe "$work/now.abi" || exit 1
# What is behind the opaque types is nobody else's business; abidw leaves their insides out only where the internal
# header has another file name than the public one. Structs that carry their size may grow at the end.
cat >"$work/opaque" <<'END'
[suppress_type]
  name_regexp = ^(xsmi_.*|xsm_(context|dataset|transform|model|estimator|gradient|optimizer|trainer|predictor))$
[suppress_type]
  name_regexp = ^xsm_
  name_not_regexp = ^xsm_(allocator|runner|source|example|option)$
  has_data_member_inserted_at = end
END
abidiff --no-added-syms --suppressions "$work/opaque" "$last" "$work/now.abi"
