# Functions shared by the comparisons in bench/: sourced by them, with $root set to the source tree.
# shellcheck shell=sh
# shellcheck source=examples/setup.sh disable=SC2154
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"

# need PACKAGE:PROBE...: installs packages that a comparison requires.
need() {
    need_packages "$@" >&2 || fail "the packages above are needed"
}

# want PACKAGE:PROBE...: installs packages that a comparison can do without.
want() {
    for peer in "$@"; do
        need_packages "$peer" >&2 || say "Going on without ${peer%%:*}." >&2
    done
}

# build_large: builds the programs of bench/ and examples/ in $build, which is apart as it has other settings.
build_large() {
    build=$root/build-bench-large
    say "Building in $build ..." >&2
    build_tree "$build" -Dbuildtype=release -Dbench=true -Dtests=false -Dexamples=false >&2 ||
        fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
}

# build_program NAME: builds the library and sets $program to that program of examples/.
build_program() {
    build=$root/build
    say "Building in $build ..." >&2
    build_tree "$build" -Dtests=false >&2 ||
        fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
    program=$build/examples/$1
    [ -x "$program" ] || fail "$build was configured without $program: remove that folder and run this again"
}
