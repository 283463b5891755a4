#!/bin/sh
# Compares searches for the ten largest inner products with FAISS and hnswlib, on one thread: recall against time, one query at a
# time and in blocks, and the time to build.
#
#   sh bench/compare_search.sh [K...]      K rows that are made up, 100000 unless named; 1000000 takes half an hour
#
# Also on a recommender's vectors, where $XSM_DATA or ../shared/data has mips-items. Prints CSV, and writes it with pictures (SVG
# and PNG) to build/compare_search/. hnswlib is compiled for this processor; FAISS is as Debian compiles it, for any (SSE2). On a
# fresh Debian it first installs missing packages.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

need libfaiss-dev:/usr/include/faiss/Index.h libhnswlib-dev:/usr/include/hnswlib/hnswlib.h \
    "libopenblas0-pthread:/usr/lib/$(${CC:-cc} -dumpmachine)/openblas-pthread/libopenblas.so.0"
want gnuplot-nox:gnuplot
build_program xsoftmax
export OPENBLAS_NUM_THREADS=1

folder=$build/compare_search
mkdir -p "$folder"
"${CXX:-c++}" -std=c++17 -O3 -march=native -fopenmp -I"$root/include" "$root/bench/compare/vectors.cpp" -L"$build/lib" \
    -Wl,-rpath,"$build/lib" -lxsoftmax -lfaiss -l:liblapack.so.3 -l:libblas.so.3 -o "$folder/vectors" || fail "bench/compare/vectors.cpp could not be compiled"

data=${XSM_DATA:-$root/../shared/data}/mips-items
[ $# -gt 0 ] || set -- 100000
{
    echo "set,program,setting,build seconds,recall@10,us a query,us in blocks"
    if [ -f "$data/items_12101x64.f32.gz" ]; then
        gzip -dc "$data/items_12101x64.f32.gz" >"$folder/rows" && gzip -dc "$data/queries_22363x64.f32.gz" >"$folder/queries" &&
            "$folder/vectors" mips-items "$folder/rows" "$folder/queries" 64
    else
        say "skipped: mips-items is not in $data" >&2
    fi
    for k in "$@"; do
        "$folder/vectors" made "$k"
    done
} | tee "$folder/compare_search.csv"
for kind in svg png; do
    gnuplot -e "folder = '$folder'; kind = '$kind'; scripts = '$root/bench/papers'" "$root/bench/compare/search.gp" ||
        say "no picture: gnuplot-nox is needed" >&2
done
