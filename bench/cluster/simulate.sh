#!/bin/sh
# Times of steps on 2 to 1,024 simulated machines. Records what steps of the library do on two ranks here (and four, where
# classes are drawn), and repeats it with SimGrid on a cluster whose machines are as fast as this one's processor, 5 us and
# 12.5 GB/s apart.
#
#   sh bench/cluster/simulate.sh [--record FOLDER | --replay FOLDER]     both, if neither is given
#
# Prints tables for doc/measurements/clusters.md, and draws strong scaling as scaling.svg and scaling.png in build-bench/.
# --record leaves schedules in FOLDER, a minute on an otherwise idle machine; --replay reads them, half an hour of one
# processor, as 1,024 ranks that send blocks around a ring are a million messages for each call. Needs Open MPI, SimGrid and
# gnuplot, which it installs on a Debian.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"
# shellcheck disable=SC2086,SC2154
need_packages $build_packages libopenmpi-dev:ompi-c.pc openmpi-bin:mpirun.openmpi libsimgrid-dev:smpicc \
    gnuplot-nox:gnuplot >&2 ||
    fail "the packages above are needed"

phase=both
work=
case $# in
0) ;;
2) phase=${1#--} work=$2 ;;
*) fail "there are --record FOLDER and --replay FOLDER" ;;
esac
case $phase in
both) work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-cluster.XXXXXX") && trap 'rm -rf "$work"' EXIT ;;
record | replay) mkdir -p "$work" ;;
*) fail "there are --record FOLDER and --replay FOLDER" ;;
esac
cd "$work" || exit 1

# record RANKS WORK CLASSES BATCH DRAWS: its schedule, in WORK.RANKS.CLASSES
record() {
    sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi "$1" "$build/bench/bench_cluster" "$2" 1 4 "$3" 256 "$4" "$5" \
        "$work/$2.$1.$3" </dev/null || exit 1
}

if [ "$phase" != replay ]; then
    build_bench
    sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi 2 "$build/bench/bench_cluster" \
        wire 1 1 1 1 1 1 >measured || exit 1
    for classes in 65536 98304 131072; do
        record 2 evaluate $classes 256 0
        record 2 softmax $classes 256 0
    done
    for ranks in 2 4; do
        record $ranks one-vs-all-sampled 1000000 128 20
        record $ranks sampled-softmax 1000000 128 20
    done
fi
[ "$phase" != record ] || exit 0

smpicc -O2 -o replay "$root/bench/cluster/replay.c" || exit 1
seq -f 'node-%.0f' 0 1023 >hosts

# platform LATENCY BANDWIDTH: of the way between two machines
platform() {
    cat <<END
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="cluster" prefix="node-" suffix="" radical="0-1023" speed="1Gf" bw="$2Bps" lat="$1s"
    loopback_bw="$2Bps" loopback_lat="0s"/>
</platform>
END
}

# replay PLATFORM RANKS ARGUMENT...: ranks map one piece of memory each, as the system limits the number of mappings.
replay() {
    on=$1 ranks=$2
    shift 2
    smpirun -np "$ranks" -platform "$on" -hostfile hosts --cfg=smpi/simulate-computation:no --cfg=network/model:CM02 \
        --cfg=smpi/coll-selector:ompi --cfg=smpi/shared-malloc:local --log=root.thres:critical ./replay "$@" >line 2>error ||
        {
            cat error >&2
            fail "the simulation of $ranks ranks failed"
        }
}

# Half of the way's latency is that of each machine's link.
platform 2.5e-6 12.5e9 >cluster.xml
# shellcheck disable=SC2046
set -- $(cut -d ' ' -f 2,3 measured)
platform "$(awk "BEGIN { print $1 / 2 }")" "$2" >here.xml

say "Two ranks here: ms a step by the clock, as replayed, ratio"
for what in evaluate softmax; do
    seconds=$(sed -n 's/^step //p' "$what.2.98304")
    replay here.xml 2 "$what.2.65536" 32768 "$what.2.131072" 65536 98304 classes 3
    awk -v what=$what -v s="$seconds" '{ printf "| `%s` | %.2f | %.2f | %.3f |\n", what, 1e3 * s, 1e3 * $3, $3 / s }' line
done

# A file of each line of the plot.
folder=$root/build-bench
mkdir -p "$folder"
say "Milliseconds a step of 256 rows: ranks, classes, simulated, on paper; one process's time over ranks and simulated time"
for what in evaluate softmax; do
    for classes in 10000000 100000000 weak; do
        csv=$folder/scaling-$what-$classes.csv
        say "ranks,simulated,ideal" >"$csv"
        for ranks in 64 128 256 512 1024; do
            k=$classes
            [ "$classes" != weak ] || k=$((ranks * 97656))
            replay cluster.xml $ranks "$what.2.65536" 32768 "$what.2.131072" 65536 $k classes 1
            awk -v what=$what -v csv="$csv" '{
                printf "| `%s` | %d | %d | %.1f | %.1f | %.2f |\n", what, $1, $2, 1e3 * $3, 1e3 * $4, $5 / $1 / $3
                printf "%d,%.9f,%.9f\n", $1, 1e3 * $3, 1e3 * $5 / $1 >>csv }' line
        done
    done
done

for kind in svg png; do
    gnuplot -e "folder = '$folder'; kind = '$kind'; scripts = '$root/bench/papers'" "$root/bench/cluster/scaling.gp" >&2 ||
        fail "gnuplot could not draw scaling.$kind"
done

say "Milliseconds a step of 128 rows with 20 classes drawn for each: ranks, simulated, on paper, computing on one process"
for what in one-vs-all-sampled sampled-softmax; do
    for ranks in 2 4 8 64; do
        replay cluster.xml $ranks "$what.2.1000000" .5 "$what.4.1000000" .25 1000000 shares 3
        awk -v what=$what '{ printf "| `%s` | %d | %.3f | %.3f | %.3f |\n", what, $1, 1e3 * $3, 1e3 * $4, 1e3 * $5 }' line
    done
done
