#!/bin/sh
# Would programs run that were built before? Compares the interface of today with tests/structure/abi/xsoftmax.abi:
#
#   sh tests/structure/check-abi.sh [--words|--mpi] [--root TREE] [--baseline FILE] [LIBRARY]
#
# With --words that of libxsoftmax-words, with xsoftmax-words.abi; with --mpi likewise.
# Without LIBRARY, that of a stub which is compiled from the headers and the symbol map of TREE (default: this one);
# else that of the built library, which needs debug information. Growth passes: new functions, and new members at the
# end of structs that begin with their size; and any change of what is experimental. With --write the stub's interface
# becomes the stored one: see renew-abi.sh. Ends with 77 only where there is no abigail. For x86-64, gcc.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
root=$here/../..
library='' write=false baseline='' name=xsoftmax map=lib/xsoftmax.map
while [ $# -gt 0 ]; do
    case $1 in
    --words) name=xsoftmax-words map=lib/words/xsoftmax-words.map ;;
    --mpi) name=xsoftmax-mpi map=lib/mpi/xsoftmax-mpi.map ;;
    --root) root=$2 && shift ;;
    --baseline) baseline=$2 && shift ;;
    --write) write=true ;;
    -*) echo "usage: sh tests/structure/check-abi.sh [--words|--mpi] [--root TREE] [--baseline FILE] [--write] [LIBRARY]" >&2 && exit 2 ;;
    *) library=$1 ;;
    esac
    shift
done
: "${baseline:=$here/abi/$name.abi}"
if ! command -v abidw >/dev/null 2>&1; then
    echo "skipped: there is no abidw (Debian: abigail-tools)"
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-abi.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

if [ -z "$library" ]; then
    library=$work/lib$name.so
    abi=$(sed -n 's/^#define XSM_ABI_VERSION \([0-9]*\).*/\1/p' "$root/include/xsoftmax/version.h")
    python3 "$here/abi.py" stub "$root/include" gcc >"$work/stub.c" || { cat "$work/stub.c"; exit 1; }
    gcc -std=c11 -w -g -DXSM_EXPERIMENTAL -I "$root/include" -shared -fPIC -ffile-prefix-map="$work"=. \
        -Wl,-soname,"lib$name.so.$abi" -Wl,--version-script,"$root/$map" -o "$library" "$work/stub.c" || exit 1
fi
# Without paths, lines and names of arguments, which compiled programs do not see.
abidw --headers-dir "$root/include" --drop-private-types --no-comp-dir-path --no-corpus-path --no-show-locs \
    --no-parameter-names --no-elf-needed "$library" --out-file "$work/now.abi" || exit 1
if $write; then
    cp "$work/now.abi" "$baseline"
    exit
fi
python3 "$here/abi.py" trim "$baseline" "$work/now.abi" >"$work/trimmed.abi" || exit 1
python3 "$here/abi.py" unpromised "$(dirname "$baseline")/pins.inc" >"$work/unpromised" || exit 1
if ! abidiff --harmless --no-added-syms --suppressions "$work/unpromised" "$baseline" "$work/trimmed.abi"; then
    echo "Programs that were built before would not run: raise XSM_ABI_VERSION, or undo the change above."
    exit 1
fi
