#!/bin/sh
# Trains, saves, evaluates and predicts with a model on four ranks, each with less memory than its training takes; one
# process with that limit fails. Its status is 1 if that is not what happens.
#
#   sh bench/cluster/limit.sh [LIMIT-MIB]     the address space of each process (1400); weights and Adagrad's sums
#                                           take 3,076, a quarter of them 769, and the file 1,534
#
# For doc/measurements/clusters.md. Needs 4 GiB of memory, 2 GiB of disk in $TMPDIR, and Open MPI.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"
limit=${1:-1400}
# shellcheck disable=SC2086,SC2154
need_packages $build_packages libopenmpi-dev:ompi-c.pc openmpi-bin:mpirun.openmpi >&2 || fail "the packages above are needed"
build_bench
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-limit.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# 400,000 classes, 100 of them in a row, and 1,000 features.
awk 'BEGIN {
    print 4000, 1000, 400000
    for (i = 0; i < 4000; i++) {
        for (j = 0; j < 100; j++) printf "%s%d", j ? "," : "", i + 4000 * j
        printf " %d:1 %d:0.5 %d:0.5\n", i % 997, 997 + i % 2, 999
    }
}' >rows.txt
sed '1s/.*/200 1000 400000/;201q' rows.txt >some.txt

# run RANKS COMMAND...: each process with the limit.
run() {
    ranks=$1
    shift
    set -- prlimit --as=$((limit * 1048576)) "$@" --threads 1
    if [ "$ranks" -eq 1 ]; then
        "$@"
    else
        sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi "$ranks" "$@"
    fi
}

status=0
for ranks in 1 4; do
    say "ranks: $ranks, each of at most $limit MiB"
    if run "$ranks" "$build/examples/xsoftmax" train --data rows.txt --estimator one-vs-all-sampled --set negatives=50 \
        --optimizer adagrad --eta 0.1 --epochs 1 --batch 100 --evaluate-train no --model model &&
        run "$ranks" "$build/examples/xsoftmax" evaluate --model model --data some.txt &&
        run "$ranks" "$build/examples/xsoftmax" predict --model model --data some.txt --top 3 >predictions; then
        say "$(wc -c <model) bytes saved, $(wc -l <predictions) rows predicted"
        [ "$ranks" -ne 1 ] || status=1
    else
        [ "$ranks" -eq 1 ] || status=1
    fi
done
exit "$status"
