#!/bin/sh
# Writes down the interface of the headers as they are: tests/structure/abi/, symbols.txt, the symbol maps of the libraries,
# lib/base/first.h, defaults.h and starts.inc; and first the version of meson.build into version.h.
#
#   sh tests/structure/renew-abi.sh [--check]
#
# Until the first release, after any change of the headers. From then on for growth only: it refuses where programs
# that were built before would not run. With --check it changes nothing, and fails if something would change.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$(cd "$here/../.." && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-abi.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
abi() {
    python3 "$root/lib/abi.py" "$@"
}

status=0
put() {
    if ! cmp -s "$work/$1" "$2"; then
        if [ "${check-}" ]; then
            echo "$2 is not what ${3-the headers say}: sh tests/structure/renew-abi.sh"
            status=1
        else
            cp "$work/$1" "$2"
        fi
    fi
}
check=
[ "${1-}" != --check ] || check=yes

version=$(sed -n "s/^  version: '\([0-9]*\.[0-9]*\.[0-9]*\)',\$/\1/p" "$root/meson.build")
[ "$version" ] || { echo "meson.build has no version of three numbers"; exit 1; }
minor=${version#*.}
sed "s/^\(#define XSM_VERSION_MAJOR\) [0-9]*/\1 ${version%%.*}/; s/^\(#define XSM_VERSION_MINOR\) [0-9]*/\1 ${minor%%.*}/
    s/^\(#define XSM_VERSION_PATCH\) [0-9]*/\1 ${version##*.}/" "$root/include/xsoftmax/version.h" >"$work/version.h"
put version.h "$root/include/xsoftmax/version.h" 'meson.build says'

# A dated section of the changelog is a release.
pins=- first=-
if [ -f "$here/abi/pins.inc" ] && grep -q '^## \[[0-9.]*\] - [0-9]' "$root/CHANGELOG.md"; then
    pins=$here/abi/pins.inc first=$root/lib/base/first.h
    abi check "$pins" "$root/include" gcc || exit 1
fi
abi pins "$root/include" "$pins" gcc >"$work/pins.inc" || { cat "$work/pins.inc"; exit 1; }
abi first "$root/include" "$first" gcc >"$work/first.h" || exit 1
abi defaults "$root/include" gcc >"$work/defaults.h" || { cat "$work/defaults.h"; exit 1; }
abi starts "$root/include" gcc >"$work/starts.inc" || { cat "$work/starts.inc"; exit 1; }
abi symbols "$root/include" gcc >"$work/symbols.txt" || exit 1
map() {
    abi map "$work/symbols.txt" "$root/include" "$root/$1" "$root/CHANGELOG.md" "$2" >"$work/${1##*/}" ||
        { cat "$work/${1##*/}"; exit 1; }
}
map lib/xsoftmax.map ''
map lib/words/xsoftmax-words.map words
map lib/mpi/xsoftmax-mpi.map mpi
put pins.inc "$here/abi/pins.inc"
put first.h "$root/lib/base/first.h"
put defaults.h "$root/lib/base/defaults.h"
put starts.inc "$root/lib/base/starts.inc"
put symbols.txt "$here/symbols.txt"
put xsoftmax.map "$root/lib/xsoftmax.map"
put xsoftmax-words.map "$root/lib/words/xsoftmax-words.map"
put xsoftmax-mpi.map "$root/lib/mpi/xsoftmax-mpi.map"
exit $status
