#!/bin/sh
# Runs the fuzz targets of tests/fuzz/, so many seconds each. On a fresh Debian it first installs what is missing.
#
#   sh tests/fuzz.sh SECONDS [TARGET...]      all targets: dataset found text vectors fasttext model models cache saved restore index checkpoint
#                                             requests arguments
#   sh tests/fuzz.sh --build [TARGET...]      builds them, and runs none
#
# Each starts from its committed corpus and from what earlier runs have added to build-fuzz/corpus/TARGET. The exit
# status is 0 if nothing was found; what was found is in build-fuzz/found/, with the command that shows it again.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

case ${1-} in
--build) ;;
'' | *[!0-9]* | 0*) fail "usage: sh tests/fuzz.sh SECONDS|--build [TARGET...]" ;;
esac
seconds=$1
shift
[ $# -gt 0 ] || set -- dataset found text vectors fasttext model models cache saved restore index checkpoint requests arguments
for target in "$@"; do
    [ -d "$root/tests/fuzz/corpus/$target" ] ||
        fail "there is no target '$target'; there are $(cd "$root/tests/fuzz/corpus" && echo *)"
done

# shellcheck disable=SC2086,SC2154
need_packages $build_packages clang:clang llvm:llvm-symbolizer || fail "the packages above are needed"
runtime=$(clang -print-resource-dir)/lib/linux
need_packages "libclang-rt-dev:$runtime/libclang_rt.fuzzer-$(uname -m).a" || fail "clang's libFuzzer is needed"

build=$root/build-fuzz
say "Building in $build ..."
export CC=clang CXX=clang++
[ -f "$build/build.ninja" ] ||
    quietly meson setup "$build" "$root" -Dbuildtype=debugoptimized -Doptimization=1 -Dfuzzers=true -Dexamples=false -Dwerror=true ||
    build_failed "$build"
programs=
for target in "$@"; do
    programs="$programs tests/fuzz/fuzz_$target"
done
# shellcheck disable=SC2086
quietly ninja -C "$build" examples/xsoftmax $programs || build_failed "$build"
[ "$seconds" != --build ] || exit 0

# Files that targets write are in memory where there is such a place, and go when this ends.
parent=$build
[ ! -w /dev/shm ] || parent=/dev/shm
TMPDIR=$(mktemp -d "$parent/xsoftmax-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM HUP
export TMPDIR

# Memory that is asked for and not there is an error to be told of, not an end; but a small file that asks for more than a
# bit for each number of a feature, 256 MiB, is found by -malloc_limit_mb. Memory that was released is kept apart for some
# inputs, not for hundreds, as each page costs.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=16:malloc_context_size=5
export UBSAN_OPTIONS=print_stacktrace=1

# Words that inputs are made of. Those of the arguments are the command's own.
dictionary() {
    if [ "$1" != arguments ]; then
        [ ! -f "$root/tests/fuzz/dictionaries/$1" ] || cat "$root/tests/fuzz/dictionaries/$1"
        return
    fi
    for command in train evaluate predict convert info; do
        "$build/examples/xsoftmax" "$command" --help
    done | sed -n 's/^  \(--[a-z-]*\).*/"\\x0a\1\\x0a"/p' | sort -u
    for list in estimators samplers optimizers indexes; do
        "$build/examples/xsoftmax" "$list" | sed -n 's/^ *\([a-z][a-z-]*\)  .*/\1/p' | while read -r name; do
            printf '"%s"\n' "$name"
            "$build/examples/xsoftmax" "$list" "$name" | sed -n 's/^ *\([a-z][a-z-]*\)  .*/"\\x0a--set\\x0a\1="/p'
        done
    done | sort -u
    for word in rows.svm rows.csv words.txt rows.npy labels.npy names model words.model tree.model checkpoint; do
        printf '"\\x0a%s\\x0a"\n' "$word"
    done
}

# What a target's run is given besides corpora and time.
settings() {
    # Messages of the command are many.
    [ "$1" != arguments ] || printf '%s ' -close_fd_mask=3
    # Weighing inputs by how rare what they reach is costs more than a run of these with so much to compare.
    printf '%s ' -rss_limit_mb=2048 -malloc_limit_mb=257 -timeout=20 -print_final_stats=1 -entropic=0
    case $1 in
    # A change is eight bytes, and puts whole numbers: being nearer to a number that is compared is no gain.
    checkpoint | models | cache | saved) printf '%s' '-max_len=200 -len_control=0' ;;
    restore) printf '%s' '-max_len=200 -use_value_profile=1' ;;
    *) printf '%s' '-max_len=4096 -use_value_profile=1' ;;
    esac
}

stat_of() {
    sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

mkdir -p "$build/found" "$build/dictionaries"
findings=0
for target in "$@"; do
    corpus=$build/corpus/$target
    log=$build/$target.log
    program=$build/tests/fuzz/fuzz_$target
    mkdir -p "$corpus"
    words=$build/dictionaries/$target
    dictionary "$target" >"$words"
    # shellcheck disable=SC2046
    set -- "$program" $(settings "$target")
    [ ! -s "$words" ] || set -- "$@" -dict="$words"
    status=0
    "$@" -max_total_time="$seconds" -artifact_prefix="$build/found/$target-" "$corpus" \
        "$root/tests/fuzz/corpus/$target" >"$log" 2>&1 </dev/null || status=$?
    printf '%-12s %10s runs %8s a second' "$target" "$(stat_of number_of_executed_units "$log")" \
        "$(stat_of average_exec_per_sec "$log")"
    case $status in
    0) say ", nothing found" && continue ;;
    72) say ", nothing found until a signal ended it" && continue ;;
    esac
    findings=$((findings + 1))
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    say ", FOUND (status $status): $(grep -m 1 -E 'ERROR:|runtime error:|does not hold:' "$log")"
    say "    the whole report: $log"
    [ -z "$input" ] || say "    the input: $input; again: ${program#"$root"/} -close_fd_mask=0 $input"
done
[ "$findings" -eq 0 ] || fail "$findings targets found something"
