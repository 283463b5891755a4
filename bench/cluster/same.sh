#!/bin/sh
# Trains with every estimator, by one process and by ranks of both MPIs, and compares the files that are saved: for each
# estimator on 1, 2, 3, 4 and 8 ranks of one and of two threads.
#
#   sh bench/cluster/same.sh [ESTIMATOR...]     all of them, a first layer and a label tree, if none is named
#
# Prints a row for each; fails if a file differs. All of it takes some ten minutes of two cores. Needs Open MPI and MPICH,
# which it installs on a Debian.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"
# shellcheck disable=SC2086,SC2154
need_packages $build_packages libopenmpi-dev:ompi-c.pc openmpi-bin:mpirun.openmpi libmpich-dev:mpich.pc mpich:mpirun.mpich >&2 ||
    fail "the packages above are needed"
build_bench
ninja -C "$build" examples/xsoftmax-mpi-mpich >&2 || fail "the command for MPICH could not be built"
command=$build/examples/xsoftmax
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-same.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# 36,000 classes, nine runs of 4,096, so that eight ranks have some each. All of them are labels: of rows that have a
# hundred, and of rows that have one, for estimators that take the first label of a row.
awk 'BEGIN {
    print 360, 40, 36000 >"several.txt"
    print 36000, 40, 36000 >"single.txt"
    for (i = 0; i < 36000; i++) {
        features = sprintf("%d:%g %d:%g %d:1", i % 17, (i % 9 + 1) / 8, 17 + i % 19, (i % 5 - 2.5) / 4, 36 + i % 4)
        print (i * 7919) % 36000, features >"single.txt"
        if (i < 360) {
            for (j = 0; j < 100; j++) printf "%s%d", j ? "," : "", i + 360 * j >"several.txt"
            print " " features >"several.txt"
        }
    }
}'

# flags WHAT: of its run. Estimators without a line have the options that they have by default.
flags() {
    case $1 in
    label-tree) set -- --data several.txt --method label-tree --set leaf=60 --set rounds=5 ;;
    first-layer)
        set -- --estimator sampled-softmax --set shared=yes --set negatives=100 --hidden 12
        set -- "$@" --data several.txt --eta .1 --batch 60 --epochs 1
        ;;
    softmax | bouchard | margin | one-vs-all | one-vs-all-sampled | sampled-softmax)
        set -- --data several.txt --estimator "$1" --eta .1 --batch 60 --epochs 1
        ;;
    implicit) set -- --data single.txt --estimator "$1" --eta .001 --batch 20 --epochs 1 ;;
    *) set -- --data single.txt --estimator "$1" --eta .001 --batch 1000 --epochs 1 ;;
    esac
    printf '%s ' "$@"
}

# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $("$command" estimators | cut -d ' ' -f 1 | grep -v 'mips$\|searched$\|^hierarchical$') first-layer label-tree
wrong=0
echo '| what | bytes of the file | runs | files with other bytes |'
echo '|---|---|---|---|'
for what in "$@"; do
    # shellcheck disable=SC2046
    set -- train --evaluate-train no --seed 3 $(flags "$what")
    "$command" "$@" --threads 1 --model one >log 2>&1 </dev/null || {
        cat log
        fail "$what does not train"
    }
    runs=0 other=0
    for mpi in openmpi mpich; do
        ranked=$command
        [ $mpi = openmpi ] || ranked=$build/examples/xsoftmax-mpi-mpich
        for ranks in 1 2 3 4 8; do
            for threads in 1 2; do
                rm -f model
                sh "$root/tests/mpi/mpirun.sh" $mpi mpirun.$mpi $ranks "$ranked" "$@" --threads $threads --model model \
                    >log 2>&1 </dev/null || cat log >&2
                runs=$((runs + 1))
                cmp one model >&2 || other=$((other + 1))
            done
        done
    done
    echo "| \`$what\` | $(wc -c <one) | $runs | $other |"
    wrong=$((wrong + other))
done
[ "$wrong" -eq 0 ]
