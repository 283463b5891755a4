#!/bin/sh
# One process of two threads against two ranks of one thread, in turns, on the same work; and the bytes that ranks send.
#
#   sh bench/cluster/run.sh [SECONDS [TURNS]]     seconds of a measurement (3), turns (3)
#
# For doc/measurements/clusters.md. Needs two processors to itself, and Open MPI. What is not divided
# is left out, with the library's message.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"
seconds=${1:-3} turns=${2:-3}
# shellcheck disable=SC2086,SC2154
need_packages $build_packages libopenmpi-dev:ompi-c.pc openmpi-bin:mpirun.openmpi >&2 || fail "the packages above are needed"
build_bench

# WORK CLASSES FEATURES BATCH DRAWS
while read -r work classes features batch draws; do
    turn=0
    while [ "$turn" -lt "$turns" ]; do
        turn=$((turn + 1))
        for ranks in 1 2; do
            sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi $ranks "$build/bench/bench_cluster" "$work" \
                $((3 - ranks)) "$seconds" "$classes" "$features" "$batch" "$draws" 2>&1 </dev/null |
                grep -E 'rows/s|^bench_cluster' | sort -u
        done
    done
done <<'LIST'
evaluate 100000 256 256 0
softmax 100000 256 256 0
shared 100000 256 128 1000
shared 100000 2000/256/64 128 1000
shared 100000 100000/256/64 128 1000
one-vs-all-sampled 100000 256 128 20
sampled-softmax 100000 256 128 20
umax 100000 256 128 5
umax 100000 256 1 5
one-vs-all-sampled 100000 256 1 20
LIST
