#!/bin/sh
# examples/serve at full load: wrk sends rows for a minute while the model's file is replaced twenty times, and compares every
# answer with `xsoftmax predict`. Then a server under the address sanitizer gets a hundred thousand malformed requests.
#
#   sh bench/serve.sh [--seconds S] [--connections N] [--threads T] [--malformed N] [SET...]     20news and bibtex by default
#
# Needs $XSM_DATA or ../shared/data. On a fresh Debian it first installs missing packages, including wrk.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

seconds=60
connections=64
threads=2
malformed=100000
while [ $# -gt 0 ]; do
    case $1 in
    --seconds) seconds=$2 ;;
    --connections) connections=$2 ;;
    --threads) threads=$2 ;;
    --malformed) malformed=$2 ;;
    --*) fail "$1 is unknown; --seconds, --connections, --threads and --malformed are accepted" ;;
    *) break ;;
    esac
    shift 2
done
[ $# -gt 0 ] || set -- 20news bibtex
data=${XSM_DATA:-$root/../shared/data}
replacements=20

need libmicrohttpd-dev:libmicrohttpd.pc wrk:wrk curl:curl
build_program serve
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-serve.XXXXXX") || exit 1
server=
leave() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$work"
}
trap leave EXIT
no_proxy='*'
export no_proxy
failures=0

wrong() {
    say "FAILED: $*"
    failures=$((failures + 1))
}

# start PROGRAM ARGUMENT...
start() {
    rm -f "$work/url"
    "$@" --port 0 >"$work/url" 2>"$work/log" &
    server=$!
    for _ in $(seq 600); do
        [ -s "$work/url" ] && break
        sleep 0.1
    done
    url=$(cat "$work/url")
    [ -n "$url" ] || fail "the server does not start: $(cat "$work/log")"
}

stop() {
    kill -TERM "$server"
    wait "$server" || wrong "the server ends with status $?: $(tail -n 20 "$work/log")"
    server=
}

# What the server has of memory, in MiB.
memory() {
    awk '/^VmRSS:/ { printf "%.1f", $2 / 1024 }' "/proc/$server/status"
}

# load SET
load() {
    folder=$work/$1
    mkdir "$folder"
    "$python" "$root/bench/compare/serve.py" "$build/examples/xsoftmax" "$data" "$1" "$folder" || fail "preparing $1"
    cp "$folder/a.model" "$folder/now.model"
    start "$program" "$folder/now.model" --threads "$threads"
    wrk -t "$threads" -c "$connections" -d "$seconds" -s "$root/bench/compare/serve.lua" "$url" -- "$folder/rows.lua" \
        >"$folder/said" 2>&1 &
    loading=$!
    pause=$(awk -v s="$seconds" -v n=$replacements 'BEGIN { print 0.98 * s / (n + 1) }')
    sleep "$pause"
    levels=$(memory)
    for number in $(seq $replacements); do
        if [ $((number % 2)) -eq 1 ]; then
            cp "$folder/b.model" "$folder/next"
        else
            cp "$folder/a.model" "$folder/next"
        fi
        mv "$folder/next" "$folder/now.model"
        sleep "$pause"
        levels="$levels $(memory)"
    done
    wait $loading || wrong "wrk: $(tail -n 5 "$folder/said")"
    curl -s -X POST "$url/reload" >/dev/null # the last file may be too new
    health=$(curl -s "$url/health")
    case $health in
    *"\"generation\":$((replacements + 1)),\"refused\":0,"*) ;;
    *) wrong "not every model was taken: $health" ;;
    esac
    stop
    result=$(grep '^answers' "$folder/said") || wrong "no figures: $(tail -n 5 "$folder/said")"
    case $result in
    *' wrong 0 failed 0 '*) ;;
    *) wrong "$1: $result $(grep '^first' "$folder/said" | cut -c 1-300)" ;;
    esac
    # shellcheck disable=SC2086
    echo $result | awk -v set="$1" -v levels="$levels" '{
        split(levels, m, " ")
        printf "%-8s %10d %6d %7d %9d %8.2f %8.2f %8.2f %8.1f   %s %s %s %s %s\n", set, $2, $4, $6, $8, $10 / 1000, $12 / 1000,
            $14 / 1000, $16 / 1000, m[1], m[6], m[11], m[16], m[21] }'
}

say "$connections connections, $threads threads of the server and of wrk, $seconds s, the model's file replaced $replacements times"
printf '%-8s %10s %6s %7s %9s %8s %8s %8s %8s   %s\n' rows answers wrong failed 'a second' 'p50 ms' 'p99 ms' 'p99.9 ms' \
    'max ms' 'MiB after 0, 5, 10, 15 and 20 replacements'
for set in "$@"; do
    load "$set"
done

if [ "$malformed" -gt 0 ]; then
    sanitized=$root/build-sanitized
    say "Building in $sanitized ..." >&2
    settings='-Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Dc_args=-fno-sanitize-recover=all -Dtests=false
        -Dtools=false'
    # shellcheck disable=SC2086
    build_tree "$sanitized" $settings >&2 || build_failed "$sanitized" $settings
    for set in "$@"; do
        line=$(sed -n 's/^ *//; 2p' "$work/$set/rows" | cut -d ' ' -f 1-9)
        export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
        start "$sanitized/examples/serve" "$work/$set/a.model" --threads "$threads" --seconds 2
        "$python" "$root/tests/examples/serve_requests.py" "$url" "$malformed" --line "$line" >"$work/said" 2>&1 ||
            wrong "malformed requests: $(cat "$work/said")"
        stop
        say "$set under sanitizers: $(cat "$work/said")"
        ! grep -E 'Sanitizer|runtime error' "$work/log" || wrong "sanitizers"
    done
fi
[ "$failures" -eq 0 ]
