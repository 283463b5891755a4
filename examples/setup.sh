# shellcheck shell=sh
# Functions shared by examples/run.sh and tests/run.sh: installing missing packages on a fresh Debian, and the build.
# Sourced, not run; the sourcing script sets `root` to the top of the source tree.
: "${root:?}"

# A package and a probe that shows whether it is already installed, in whatever way: a command (meson), a header that
# the C compiler finds (zlib.h), a pkg-config module (jansson.pc), a module of Debian's Python (numpy.py), or a file.
# Without dpkg-architecture Meson does not know Debian's libdir, and installs into lib64, where no linker looks.
# shellcheck disable=SC2034
build_packages='meson:meson ninja-build:ninja pkg-config:pkg-config dpkg-dev:dpkg-architecture
    gcc:gcc g++:g++ libc6-dev:stdio.h zlib1g-dev:zlib.h libjansson-dev:jansson.pc liblbfgs-dev:liblbfgs.pc
    libxxhash-dev:xxhash.h libmicrohttpd-dev:libmicrohttpd.pc'
# shellcheck disable=SC2034
test_packages='libcmocka-dev:cmocka.pc cmake:cmake libhnswlib-dev:/usr/include/hnswlib/hnswlib.h python3:python3 python3-numpy:numpy.py
    curl:curl libopenmpi-dev:ompi-c.pc openmpi-bin:mpirun.openmpi libmpich-dev:mpich.pc mpich:mpirun.mpich'

# Another Python, earlier on PATH, would not see Debian's modules.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

say() {
    printf '%s\n' "$*"
}

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# is_there PROBE
is_there() {
    case $1 in
    /*) test -e "$1" ;;
    *.h) printf '#include <%s>\n' "$1" | ${CC:-cc} -E - >/dev/null 2>&1 ;;
    *.pc) pkg-config --exists "${1%.pc}" 2>/dev/null ;;
    *.py) "$python" -c "import ${1%.py}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# as_root COMMAND...: runs it as root, with sudo if needed.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        printf '%s: root or sudo is needed for: %s\n' "${0##*/}" "$*" >&2
        return 1
    fi
}

# quietly COMMAND...: runs it without output; if it fails, shows the last lines of its output.
quietly() {
    quietly_log=$(mktemp "${TMPDIR:-/tmp}/xsoftmax-log.XXXXXX") || return 1
    quietly_status=0
    "$@" >"$quietly_log" 2>&1 </dev/null || quietly_status=$?
    if [ "$quietly_status" -ne 0 ]; then
        tail -n 30 "$quietly_log" >&2
    fi
    rm -f "$quietly_log"
    return "$quietly_status"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@"
}

apt_update() {
    as_root apt-get -qq update
}

# need_packages PACKAGE:PROBE...: installs the missing ones only. On failure, prints the reason and returns 1.
need_packages() {
    missing=
    for spec in "$@"; do
        is_there "${spec#*:}" || missing="$missing ${spec%%:*}"
    done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        printf '%s: missing, and there is no apt-get to install them:%s\n' "${0##*/}" "$missing" >&2
        return 1
    fi
    say "Installing$missing ..."
    # The lists may be absent or too old to name files that still exist: update only once the first try has failed.
    # shellcheck disable=SC2086
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
        printf '%s: root or sudo is needed; ask an administrator to run:\n    %s%s\n' "${0##*/}" \
            'apt-get update && apt-get install --no-install-recommends' "$missing" >&2
        return 1
    fi
    # shellcheck disable=SC2086
    if ! apt_install $missing >/dev/null 2>&1 </dev/null && ! { quietly apt_update && quietly apt_install $missing; }; then
        printf '%s: apt-get cannot install%s: a network is needed, or a proxy (http_proxy, or Acquire::http::Proxy of apt)\n' \
            "${0##*/}" "$missing" >&2
        return 1
    fi
    for spec in "$@"; do
        if ! is_there "${spec#*:}"; then
            printf '%s: %s is not found, although %s is installed\n' "${0##*/}" "${spec#*:}" "${spec%%:*}" >&2
            return 1
        fi
    done
}

# build_failed DIRECTORY [MESON-OPTION...]: ends the script with the command that repeats the step that failed.
build_failed() {
    failed_directory=$1
    shift
    if [ -f "$failed_directory/build.ninja" ]; then
        fail "the build failed; its last lines are above. Again by hand: ninja -C $failed_directory"
    fi
    fail "the set-up failed; its last lines are above. Again by hand: meson setup $failed_directory $root${*:+ $*}"
}

# build_tree DIRECTORY [MESON-OPTION...]: configures the directory the first time, and builds it. The options count
# when it is first configured.
build_tree() {
    build_directory=$1
    shift
    if [ ! -f "$build_directory/build.ninja" ]; then
        quietly meson setup "$build_directory" "$root" "$@" || return 1
    fi
    quietly ninja -C "$build_directory"
}

# build_bench: builds the programs of bench/ and the command for release in $build, which all measurements share.
build_bench() {
    build=$root/build-bench
    say "Building in $build ..." >&2
    build_tree "$build" -Dbuildtype=release -Dbench=true -Dtests=false -Dexamples=false >&2 ||
        fail "the build failed; its last lines are above. Again by hand: ninja -C $build"
    [ -x "$build/examples/xsoftmax" ] || fail "$build was configured without the command: remove that folder and run this again"
}
