# shellcheck shell=sh
# What tests of commands share, to be sourced: a folder of their own as the current one, and checks that are counted.
# `here` is the test's own folder.
set -u
LC_ALL=C
export LC_ALL
started=$PWD
# shellcheck disable=SC2034
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-test.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0
failures=0

# path_of FILE: the path of a program or file that was named where the test was started.
path_of() {
    case $1 in /*) echo "$1" ;; *) echo "$started/$1" ;; esac
}

wrong() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$1" | cut -c 1-400
    for said in stdout stderr answer log; do
        [ ! -f "$said" ] || sed "s/^/    $said: /" "$said" | cut -c 1-400 | tail -n 5
    done
}

# expect WHAT COMMAND...: the command must succeed.
expect() {
    what=$1
    shift
    checks=$((checks + 1))
    "$@" || wrong "$what"
}

# says FILE TEXT
says() {
    checks=$((checks + 1))
    grep -qF -e "$2" "$1" || wrong "not in $1: $2"
}

# fails CODE TEXT ARGUMENT..., prints TEXT ARGUMENT...: the test's run(), and what it says then.
fails() {
    code_wanted=$1
    text_wanted=$2
    shift 2
    run "$code_wanted" "$@"
    says stderr "$text_wanted"
}
prints() {
    text_wanted=$1
    shift
    run 0 "$@"
    says stdout "$text_wanted"
}

# The end of a test: its last command.
report() {
    printf '%d checks, %d failed\n' "$checks" "$failures"
    [ "$failures" -eq 0 ]
}
