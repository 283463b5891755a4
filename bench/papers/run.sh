#!/bin/sh
# Builds the library for release and reproduces tables and figures of the papers, the paper's numbers beside ours. On a
# fresh Debian it first installs missing packages.
#
#   sh bench/papers/run.sh NAME... [--json] [--quick] [--threads N]    without a name it lists them
#
# See doc/measurements/papers.md.
#
# Tables go to standard output (with --json only the cells, one per line), CSV files and plots to build-bench/papers.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# shellcheck disable=SC2086,SC2154
need_packages $build_packages gnuplot-nox:gnuplot >&2 || fail "the packages above are needed"

build_bench
folder=$build/papers

# One of the sets of ldgs_retrieval is of this machine's package lists. Where it is missing it is made, beside links to the
# others.
data=${XSM_DATA:-$root/../shared/data}
made=$build/data set=debian-maintainers
case " $* " in
*' all '* | *' ldgs_retrieval '*)
    if [ ! -d "$data/$set" ]; then
        mkdir -p "$made" || exit 1
        for other in "$data"/*/; do
            [ ! -d "$other" ] || ln -sfn "$(cd "$other" && pwd)" "$made/$(basename "$other")" || exit 1
        done
        if [ ! -d "$made/$set" ] && sh "$root/examples/debian-packages.sh" "$made/packages" >&2; then
            mkdir "$made/$set.new" && for part in train test; do
                gzip -c "$made/packages/$part.txt" >"$made/$set.new/${set}_$part.txt.gz" || exit 1
            done && mv "$made/$set.new" "$made/$set" || exit 1
        fi
        XSM_DATA=$made
        export XSM_DATA
    fi
    ;;
esac

sh "$root/bench/papers/figures.sh" "$build/bench/papers/papers" "$folder" "$@"
