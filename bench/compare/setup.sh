# What the comparisons in bench/ have in common: sourced by them, with $root set to the source tree.
# shellcheck shell=sh
# shellcheck source=examples/setup.sh disable=SC2154
. "$root/examples/setup.sh"

# Debian's Python: another one, earlier on PATH, would not see Debian's packages.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

# shellcheck disable=SC2086,SC2154
need_packages $build_packages python3:python3 >&2 || fail "the packages above are needed"

# need_programs PACKAGE:COMMAND...: what a comparison cannot do without.
need_programs() {
    need_packages "$@" >&2 || fail "the packages above are needed"
}

# want_programs PACKAGE:COMMAND...: what it can do without.
want_programs() {
    for peer in "$@"; do
        need_packages "$peer" >&2 || say "Going on without ${peer%%:*}." >&2
    done
}

# have_module PACKAGE:MODULE: whether Debian's Python has a module, which is installed if need be.
have_module() {
    "$python" -c "import ${1#*:}" 2>/dev/null && return
    say "Installing ${1%%:*} ..." >&2
    apt_install "${1%%:*}" >/dev/null 2>&1 </dev/null || { quietly apt_update && quietly apt_install "${1%%:*}"; }
}

need_module() {
    have_module "$1" || fail "${1%%:*} is needed"
}

want_module() {
    have_module "$1" || say "Going on without ${1%%:*}." >&2
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
