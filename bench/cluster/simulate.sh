#!/bin/sh
# Times of steps on 2 to 1,024 simulated machines. Records what steps of the library do on two ranks here, or, where
# classes are drawn, on one of so many ranks, and repeats it with SimGrid on a cluster whose machines are as fast as this
# one's processor, 5 us and 12.5 GB/s apart.
#
#   sh bench/cluster/simulate.sh [--record FOLDER [PART...] | --replay FOLDER [PART...]]     both, if neither is given
#
# Prints tables for doc/measurements/cluster_simulated.md, and draws scaling as scaling.svg and scaling.png in build-bench/.
# --record leaves schedules in FOLDER, five minutes on an otherwise idle machine; --replay reads them, an hour of one
# processor, as 1,024 ranks that send blocks around a ring are a million messages for each call. Parts are here, evaluate,
# softmax, shared, few and picture; all, if none is named. Needs 20 GB of memory, Open MPI, SimGrid and gnuplot, which it
# installs on a Debian.
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
parts='here evaluate softmax shared few picture'
if [ $# -gt 0 ]; then
    [ $# -ge 2 ] || fail "there are --record FOLDER [PART...] and --replay FOLDER [PART...]"
    phase=${1#--} work=$2
    shift 2
    [ $# -eq 0 ] || parts=$*
fi
case $phase in
both) work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-cluster.XXXXXX") && trap 'rm -rf "$work"' EXIT ;;
record | replay) mkdir -p "$work" ;;
*) fail "there are --record FOLDER [PART...] and --replay FOLDER [PART...]" ;;
esac
cd "$work" || exit 1
many='64 128 256 512 1024'
few='one-vs-all-sampled sampled-softmax shared'

# keep clock|processor TURNS FILE COMMAND...: what the command writes to `new`, in FILE: of some turns the one that took
# least by the clock, or of processor time
keep() {
    by=$1 turns=$2 file=$3 turn=0
    shift 3
    rm -f "$file"
    while [ $turn -lt "$turns" ]; do
        turn=$((turn + 1))
        "$@" </dev/null || exit 1
        if [ -f "$file" ] && awk -v by="$by" '{ s[FILENAME] += FNR > 1 ? by == "clock" ? 0 : $3 : by == "clock" ? $2 : 0 }
            END { exit s["new"] < s[ARGV[1]] ? 1 : 0 }' "$file" new; then
            continue
        fi
        mv new "$file"
    done
}

# on clock|processor WORK SECONDS CLASSES BATCH DRAWS FILE: the schedule of two ranks that are there
on() {
    keep "$1" 4 "$7" sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi 2 "$build/bench/bench_cluster" "$2" 1 "$3" "$4" \
        256 "$5" "$6" new
}

# of RANKS WORK CLASSES DRAWS: the schedule of the last of so many ranks, in WORK.RANKS.CLASSES
of() {
    keep processor 2 "$2.$1.$3" "$build/bench/bench_cluster" "$2" 1 1.2 "$3" 256 128 "$4" new "$1"
}

# classes_of NAME RANKS: 10000000 and 100000000 are those; weak, 97,656 for each rank, and on 1,024 100 million
classes_of() {
    case $1.$2 in
    weak.1024) echo 100000000 ;;
    weak.*) echo $(($2 * 97656)) ;;
    *) echo "$1" ;;
    esac
}

# fold FILE: its steps as one, their mean, in FILE.step. The calls at the ends of an epoch, one in twenty steps each, are
# left out, and their processor time is that of the end.
fold() {
    awk 'FNR == 1 { steps = $4; print $1, $2, $3, 1; next }
        { line[++lines] = $0 }
        END {
            calls = int((lines - 1) / steps)
            first = lines - 1 > calls * steps ? 2 : 1
            for (j = 0; j < calls; j++) {
                for (i = 2; i <= 2000; i++) sum[i] = 0
                for (step = 0; step < steps; step++) {
                    fields = split(line[first + step * calls + j], field)
                    for (i = 2; i <= fields; i++) sum[i] += field[i] / steps
                }
                printf "%s %.1f %.9f", field[1], sum[2], sum[3]
                for (i = 4; i <= fields; i++) printf " %.1f", sum[i]
                print ""
            }
            for (i = 1; i <= lines; i++)
                if (i < first || i >= first + steps * calls) { split(line[i], field); rest += field[3] / steps }
            printf "end 0 %.9f\n", rest
        }' "$1" >"$1.step"
}

if [ "$phase" != replay ]; then
    build_bench
    sh "$root/tests/mpi/mpirun.sh" openmpi mpirun.openmpi 2 "$build/bench/bench_cluster" \
        wire 1 1 1 1 1 1 >measured || exit 1
    for part in $parts; do
        case $part in
        evaluate | softmax)
            on processor "$part" 1 65536 256 0 "$part.2.65536"
            on processor "$part" 1.5 262144 256 0 "$part.2.262144"
            on clock "$part" 1 98304 256 0 "$part.clock"
            ;;
        shared)
            for classes in 10000000 100000000 weak; do
                for ranks in $many; do
                    of "$ranks" shared "$(classes_of $classes "$ranks")" 1000
                done
            done
            ;;
        few)
            for what in $few; do
                draws=20
                [ "$what" != shared ] || draws=1000
                on clock "$what" 0.7 1000000 128 $draws "$what.clock"
                for ranks in 1 2 8 64; do
                    of $ranks "$what" 1000000 $draws
                done
            done
            ;;
        esac
    done
fi
[ "$phase" != record ] || exit 0

smpicc -O2 -o replay.$$ "$root/bench/cluster/replay.c" && mv replay.$$ replay || exit 1
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

# Half of the way's latency is that of each machine's link. Files are of this process, as parts may run side by side.
wire='5e-6 12.5e9'
platform 2.5e-6 12.5e9 >cluster.$$.xml
here=$(cut -d ' ' -f 2,3 measured)
# shellcheck disable=SC2086
set -- $here
platform "$(awk "BEGIN { print $1 / 2 }")" "$2" >here.$$.xml

# replay cluster|here RANKS ARGUMENT...: to the file `line`. Ranks map one piece of memory each, as the system limits the
# number of mappings. $gather is an algorithm of SimGrid's for allgatherv; without one it chooses as Open MPI does.
gather=
replay() {
    on=$1 ranks=$2 way=$wire line=line.$$
    [ "$1" = cluster ] || way=$here
    shift 2
    # shellcheck disable=SC2086
    smpirun -np "$ranks" -platform "$on.$$.xml" -hostfile hosts --cfg=smpi/simulate-computation:no \
        --cfg=network/model:CM02 --cfg=smpi/coll-selector:ompi ${gather:+--cfg=smpi/allgatherv:$gather} \
        --cfg=smpi/shared-malloc:local --log=root.thres:critical \
        ./replay $way "$@" >$line 2>error.$$ ||
        {
            cat error.$$ >&2
            fail "the simulation of $ranks ranks failed"
        }
}

# A file of each line of the picture.
folder=$root/build-bench
mkdir -p "$folder"

here() {
    say "Two ranks here, $here: ms a step by the clock; simulated, ratio; on paper, ratio"
    for what in evaluate softmax $few; do
        case $what in
        evaluate | softmax)
            replay here 2 "$what.2.65536" 32768 "$what.2.262144" 131072 98304 3
            ;;
        *)
            replay here 2 "$what.2.1000000" 3
            ;;
        esac
        awk -v what="$what" -v s="$(sed -n '1s/^step \([^ ]*\).*/\1/p' "$what.clock")" '{
            printf "| `%s` | %.3f | %.3f | %.3f | %.3f | %.3f |\n", what, 1e3 * s, 1e3 * $3, $3 / s, 1e3 * $4, $4 / s }' $line
    done
}

# again WORK RANKS CLASSES: a step on 64 ranks or more
again() {
    case $1 in
    shared) fold "shared.$2.$3" && replay cluster "$2" "shared.$2.$3.step" 1 ;;
    *) replay cluster "$2" "$1.2.65536" 32768 "$1.2.262144" 131072 "$3" 1 ;;
    esac
}

# may_bruck WORK RANKS CLASSES: whether the ranks' copies of what is gathered, which that algorithm has, take 20 GB or less
may_bruck() {
    case $1 in
    evaluate) awk "BEGIN { exit $2 * $3 / 4096 * 12 * 256 > 20e9 }" ;;
    softmax) awk "BEGIN { exit $2 * $3 / 4096 * 4 * 256 > 20e9 }" ;;
    esac
}

# scale WORK
scale() {
    for classes in 10000000 100000000 weak; do
        csv=$folder/scaling-$1-$classes.csv
        say "ranks,simulated,ideal,bruck" >"$csv"
        for ranks in $many; do
            k=$(classes_of $classes "$ranks")
            if [ "$classes.$ranks" = weak.1024 ]; then
                grep '^1024,' "$folder/scaling-$1-$k.csv" >>"$csv"
                continue
            fi
            bruck=
            if may_bruck "$1" "$ranks" "$k"; then
                gather=ompi_bruck
                again "$1" "$ranks" "$k"
                bruck=$(cut -d ' ' -f 3 "$line")
                gather=
            fi
            again "$1" "$ranks" "$k"
            awk -v what="$1" -v csv="$csv" -v k="$k" -v bruck="$bruck" '{
                ideal = what == "shared" ? $5 : $5 / $1
                also = bruck == "" ? "" : sprintf("%.3f", 1e3 * bruck)
                printf "| `%s` | %d | %d | %.3f | %s | %.3f | %.3f | %.2f |\n", what, k, $1, 1e3 * $3, also, 1e3 * $4, 1e3 * ideal,
                    ideal / $3
                printf "%d,%.9f,%.9f,%s\n", $1, 1e3 * $3, 1e3 * ideal, also >>csv }' "$line"
        done
    done
}

few() {
    say "Few ranks, 1,000,000 classes: ms a step of 128 rows, simulated, on paper, computing of a rank"
    for what in $few; do
        say "one process computes $(sed -n 's/^end 0.0 //p' "$what.1.1000000") s in 20 steps of $what"
        for ranks in 2 8 64; do
            fold "$what.$ranks.1000000" && replay cluster $ranks "$what.$ranks.1000000.step" 3
            awk -v what="$what" '{ printf "| `%s` | %d | %.3f | %.3f | %.3f |\n", what, $1, 1e3 * $3, 1e3 * $4, 1e3 * $5 }' "$line"
        done
    done
}

picture() {
    for kind in svg png; do
        gnuplot -e "folder = '$folder'; kind = '$kind'; scripts = '$root/bench/papers'" "$root/bench/cluster/scaling.gp" >&2 ||
            fail "gnuplot could not draw scaling.$kind"
    done
}

for part in $parts; do
    case $part in
    here) here ;;
    evaluate | softmax | shared)
        say "Classes, ranks: ms a step, simulated, so with Bruck gathers, on paper, without waiting; the last over the first"
        scale "$part"
        ;;
    few) few ;;
    picture) picture ;;
    *) fail "there is no part '$part'" ;;
    esac
done
rm -f line.$$ error.$$ here.$$.xml cluster.$$.xml
