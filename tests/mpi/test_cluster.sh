#!/bin/sh
# The command and examples/cluster.c on ranks of an MPI: the same output and files as from one process, once; and ranks
# that fail.
#
#   test_cluster.sh openmpi|mpich LAUNCHER COMMAND-OF-RANKS COMMAND CLUSTER
#
# With $XSM_TEST_FULL more ways to train, and more numbers of ranks.
set -u
here=$(cd "$(dirname "$0")" && pwd)
kind=$1 launcher=$2 ranked=$(realpath "$3") command=$(realpath "$4") cluster=$(realpath "$5")
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-cluster.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
# Open MPI's mpirun waits so many seconds before it kills the ranks of a run that has failed, 1 if it is not told.
export OMPI_MCA_odls_base_sigkill_timeout=0

expect() {
    what=$1
    shift
    if ! "$@" >expected 2>&1; then
        echo "FAILED: $what ($*)"
        tail -n 5 expected log 2>/dev/null
        failed=$((failed + 1))
    fi
}

# on RANKS COMMAND...: its output is in `out`, its messages in `log`.
on() {
    ranks=$1
    shift
    sh "$here/mpirun.sh" "$kind" "$launcher" "$ranks" "$@" >out 2>log </dev/null
}

# Each rank has another number of threads.
cat >unlike <<'EOS'
exec "$@" --threads $((${OMPI_COMM_WORLD_RANK-${PMI_RANK:?}} + 1))
EOS

# Rows of 17,000 classes, five runs of them; with several labels a row the same in fewer rows.
awk 'BEGIN {
    print 17000, 8, 17000 >"single.txt"
    for (i = 0; i < 17000; i++) printf "%d %d:%g %d:1\n", i, i % 5, (i % 9 + 1) / 8, 5 + i % 3 >"single.txt"
    print 170, 8, 17000 >"several.txt"
    for (i = 0; i < 170; i++) {
        for (j = 0; j < 100; j++) printf "%s%d", j ? "," : "", i + 170 * j >"several.txt"
        printf " %d:%g %d:1\n", i % 5, (i % 9 + 1) / 8, 5 + i % 3 >"several.txt"
    }
    print 40, 8, 17000 >"test.txt"
    for (i = 0; i < 40; i++) printf "%d %d:%g %d:1\n", i * 419, i % 5, (i % 9 + 1) / 8, 5 + i % 3 >"test.txt"
}'

# settings NUMBER: the flags of a run.
settings() {
    case $1 in
    1) echo --data single.txt --estimator sampled-softmax --set negatives=9 --eta 0.1 --batch 500 --threads 1 ;;
    2) echo --data several.txt --estimator one-vs-all-sampled --set negatives=20 --optimizer adagrad --eta 0.1 --batch 17 \
        --threads 2 ;;
    3) echo --data single.txt --estimator umax --set negatives=3 --eta 0.3 --batch 1000 --threads 2 ;;
    4) echo --data single.txt --estimator sampled-softmax --set shared=yes --set negatives=50 --hidden 6 --eta 0.1 --batch 500 ;;
    esac
}

# The report without what depends on the time it took, and on the number of a process.
same() {
    sed -e 's/ in [0-9.]* s.*//' -e 's/ in [0-9]*:[0-9:]*.*//' -e '/^train /d' -e '/^time /d' -e 's/"evaluate_seconds":[^,]*,"peak_bytes":[^,]*,//' \
        -e 's/"prediction_seconds":[^,]*,//' "$1"
}

trainings='1 2 3 4' groups='2 3 5'
[ -n "${XSM_TEST_FULL-}" ] || trainings='1 3 4' groups=3
for number in $trainings; do
    # shellcheck disable=SC2046
    set -- train $(settings "$number") --epochs 1 --evaluate-train no --test test.txt
    "$command" "$@" --model model >one || exit 1
    mv model "one.$number"
    for ranks in $groups; do
        [ "$number" -eq 1 ] || [ "$ranks" -ne 5 ] || continue
        case $* in *--threads*) on "$ranks" "$ranked" "$@" --model model ;; *) on "$ranks" sh unlike "$ranked" "$@" --model model ;; esac
        expect "training $number on $ranks ranks" cmp "one.$number" model
        same one >a
        same out >b
        expect "its report" cmp a b
        expect "no message of xsoftmax's" test ! -s log
    done
done

expect 'no other file' test "$(find . -name 'model*' | wc -l)" -eq 1

# A model with a first layer that is loaded in parts.
"$command" evaluate --model one.4 --data test.txt --json >a
on 2 "$ranked" evaluate --model one.4 --data test.txt --json
same a >one
same out >b
expect 'an evaluation with a first layer' cmp one b

# Label trees: every rank has the whole; a fit goes on from the checkpoint of other ranks.
set -- train --method label-tree --data several.txt --test test.txt --set leaf=60 --set trees=2 --set rounds=5 \
    --evaluate-train no
"$command" "$@" --threads 2 --model model >one || exit 1
same one >a
mv model one.tree
for ranks in 2 3; do
    on $ranks sh unlike "$ranked" "$@" --model model --checkpoint tree.$ranks --checkpoint-every 0
    expect "a label tree on $ranks ranks" cmp one.tree model
    same out >b
    expect 'its report' cmp a b
    expect 'no message of its' test ! -s log
done
on 2 "$ranked" "$@" --model model --resume tree.3
expect 'a label tree resumed on 2 ranks' cmp one.tree model
"$command" "$@" --model model --resume tree.2 >b
expect 'a label tree resumed by one process' cmp one.tree model
"$command" evaluate --model one.tree --data test.txt --json >a
on 3 "$ranked" evaluate --model one.tree --data test.txt --json
same a >one
same out >b
expect 'an evaluation of a label tree' cmp one b
"$command" predict --model one.tree --data test.txt --top 7 --probabilities >one
on 2 "$ranked" predict --model one.tree --data test.txt --top 7 --probabilities
expect 'predictions of a label tree' cmp one out

# A history has a line an epoch, of rank 0.
# shellcheck disable=SC2046
on 3 "$ranked" train $(settings 1) --test test.txt --epochs 2 --evaluate-train no --history history
expect 'a history' test "$(wc -l <history)" -eq 3

# Evaluation and prediction.
"$command" evaluate --model one.1 --data test.txt --json >a
on 3 "$ranked" evaluate --model one.1 --data test.txt --json
same a >one
same out >b
expect 'an evaluation' cmp one b
"$command" predict --model one.1 --data test.txt --top 7 --probabilities >one
on 2 "$ranked" predict --model one.1 --data test.txt --top 7 --probabilities
expect 'predictions' cmp one out

# A conversion.
set -- convert-model --model one.1 --output small --type int8 --test test.txt
"$command" "$@" >one && mv small whole || exit 1
on 3 "$ranked" "$@"
expect 'a conversion' cmp whole small
expect 'its report' cmp one out
rm small

# What one process has pruned.
"$command" prune --model one.1 --output one.small --keep 3 >one || exit 1
"$command" evaluate --model one.small --data test.txt --json >a
on 3 "$ranked" evaluate --model one.small --data test.txt --json
same a >one
same out >b
expect 'an evaluation of sparse weights' cmp one b
"$command" predict --model one.small --data test.txt --top 7 --probabilities >one
on 2 "$ranked" predict --model one.small --data test.txt --top 7 --probabilities
expect 'predictions of sparse weights' cmp one out
expect 'help' on 2 "$ranked" --help
"$command" --help >one
expect 'help, once' cmp one out

# failing RANKS STATUS MESSAGE COMMAND...: fails so, says so once, and leaves no file.
failing() {
    wanted=$1 status=$2 message=$3
    shift 3
    on "$wanted" "$@"
    found=$?
    expect "status $status of: $message" test "$found" -eq "$status"
    expect "once: $message" test "$(grep -c -- "$message" log)" -eq 1
    expect "no rank is killed: $message" test "$(grep -c 'MPI_ABORT\|Abort(' log)" -eq 0
    expect "no file of: $message" test "$(find . -name 'made*' | wc -l)" -eq 0
}
failing 2 1 'nothing.txt: cannot open' "$ranked" train --data nothing.txt --estimator umax --eta 1 --model made
failing 3 2 "'convert' is for one process" "$ranked" convert --data test.txt --out made
failing 2 2 "'prune' is for one process" "$ranked" prune --model one.1 --output made --keep 3
failing 2 2 "'index' is for one process" "$ranked" index --model one.1 --output made
failing 2 1 "an index needs all classes in one process" "$ranked" predict --model one.1 --data test.txt --index exact
failing 2 2 'the choice of how to train needs a context without a communicator' "$ranked" train --data several.txt --labels all \
    --model made
failing 2 2 'the choice of a learning rate needs all classes in one process' "$ranked" train --data single.txt --estimator umax \
    --model made
failing 2 2 'standard input is given to one rank' "$ranked" evaluate --model one.1 --data -
failing 2 2 "estimator 'hierarchical' needs all classes in one process" "$ranked" train --data single.txt --estimator \
    hierarchical --eta 0.3 --model made
failing 2 1 'a calibration needs all classes in one process' "$ranked" calibrate --model one.1 --data test.txt --output made
failing 2 1 'a beam or a shortlist needs all classes in one process' "$ranked" predict --model one.1 --data test.txt --shortlist one.tree
failing 2 2 'unknown option' "$ranked" train --data single.txt --rate 1
failing 3 1 'training diverged at step' "$ranked" train --data single.txt --estimator vanilla --set negatives=3 --eta 1e14 \
    --batch 100 --epochs 2 --model made
# One bit is wrong, in what one rank has.
cp one.1 damaged
printf '\377' | dd of=damaged bs=1 seek=$(($(wc -c <one.1) / 2)) conv=notrunc 2>/dev/null
failing 3 1 'the file is damaged' "$ranked" evaluate --model damaged --data test.txt
# On one rank alone: a disk that is full, and a file that is not as on the others.
mkdir other && sed '2s/.*/x/' single.txt >other/single.txt && cp test.txt other
cat >alone <<'EOF'
[ "${OMPI_COMM_WORLD_RANK-}${PMI_RANK-}" != "$1" ] || eval "$2"
shift 2
exec "$@"
EOF
failing 2 2 'rank 1: --threads is given twice' sh alone 1 'set -- "$@" --threads 1 --threads 1' "$ranked" train --data single.txt \
    --estimator umax --eta 1 --model made
failing 3 2 "--threads: '0' is out of range" sh alone 0 'set -- "$@" --threads 0' "$ranked" predict --model one.1 --data test.txt
# shellcheck disable=SC2046
failing 3 1 'rank 2: single.txt, line 2, column 1: ' sh alone 2 'cd other' "$ranked" train $(settings 1) --epochs 1 --model made
failing 3 1 'rank 1: one.small: ' sh alone 1 'cd other' "$ranked" evaluate --model one.small --data test.txt
failing 3 1 'rank 1: test.txt: ' sh alone 1 'cd /' "$ranked" convert-model --model "$work/one.1" --output made --type int8 --test test.txt
failing 2 1 'No space left on device' "$ranked" convert-model --model one.1 --output /dev/full --type int8
failing 3 1 'rank 2: single.txt, line 2, column 1: ' sh alone 2 'cd other' "$ranked" train --method label-tree --data single.txt \
    --model made
failing 2 1 'No space left on device' "$ranked" train --method label-tree --data several.txt --set rounds=1 --model /dev/full
# shellcheck disable=SC2046
failing 2 1 'No space left on device' "$ranked" train $(settings 1) --epochs 1 --model /dev/full
failing 2 1 'No space left on device' "$ranked" convert-model --model one.1 --output /dev/full --type int8
# What ranks compare before they begin does not depend on the MPI: meson.build says so where one has tried it. With
# XSM_TEST_FULL it is tried all the same.
if [ -z "${XSM_TEST_OTHER_MPI-}" ] || [ -n "${XSM_TEST_FULL-}" ]; then
    # Rows that one rank has read from another file.
    mkdir stale && sed '$s/1$/2/' single.txt >stale/single.txt && sed '$s/1$/2/' several.txt >stale/several.txt
    # shellcheck disable=SC2046
    failing 3 1 'rank 1: the dataset is not that of rank 0' sh alone 1 'cd stale' "$ranked" train $(settings 1) --epochs 1 --model made
    failing 2 1 'rank 1: the dataset is not that of rank 0' sh alone 1 'cd stale' "$ranked" train --method label-tree --data several.txt \
        --model made
    # The same of rows to evaluate, of which one is another, or there is one fewer.
    sed '$s/1$/2/' test.txt >stale/test.txt
    mkdir fewer && sed '1s/40/39/;$d' test.txt >fewer/test.txt
    echo before >kept
    failing 3 1 'rank 2: the dataset is not that of rank 0' sh alone 2 'cd stale' "$ranked" evaluate --model "$work/one.1" \
        --data test.txt
    failing 2 1 'rank 1: the dataset is not that of rank 0' sh alone 1 'cd fewer' "$ranked" evaluate --model "$work/one.1" \
        --data test.txt
    failing 3 1 'rank 2: the rows are not those of rank 0' sh alone 2 'cd stale' "$ranked" predict --model "$work/one.1" \
        --data test.txt
    failing 2 1 'rank 1: the dataset is not that of rank 0' sh alone 1 'cd stale' "$ranked" train --data "$work/single.txt" \
        --estimator umax --eta 0.1 --test test.txt --model "$work/made"
    failing 2 1 'rank 1: the dataset is not that of rank 0' sh alone 1 'cd stale' "$ranked" convert-model --model "$work/one.1" --output "$work/kept" \
        --type int8 --test test.txt
    expect 'the file before' grep -q before kept
    failing 2 1 'rank 1: test.txt: 39 rows, and on rank 0 40' sh alone 1 'cd fewer' "$ranked" predict --model "$work/one.1" \
        --data test.txt
    # Unlike flags. The number of threads may be given to some alone, and of labels that may be predicted rank 0's count.
    failing 3 2 "rank 1: argument 6 is '--top', and on rank 0 missing" sh alone 1 'set -- "$@" --top 4' "$ranked" predict \
        --model one.1 --data test.txt
    failing 2 2 "rank 1: argument 6 is missing, and on rank 0 '--json'" sh alone 0 'set -- "$@" --json' "$ranked" evaluate \
        --model one.1 --data test.txt
    failing 2 2 "rank 1: argument 5 is '3', and on rank 0 '4'" sh alone 1 'set -- "$@" 3' sh alone 0 'set -- "$@" 4' "$ranked" predict \
        --model one.1 --top
    failing 2 2 "rank 1: argument 8 is '3', and on rank 0 '4'" sh alone 1 'set -- "$@" --threads=2 --top 3' \
        sh alone 0 'set -- "$@" --top 4 --threads 1' "$ranked" predict --model one.1 --data test.txt
fi
printf '419\n838\n' >allowed
"$command" predict --model one.1 --data test.txt --allow allowed >one || exit 1
on 3 sh alone 0 'set -- "$@" --threads 1' sh alone 2 'set -- "$@" --threads=2' sh alone 1 'cd other' "$ranked" predict \
    --model "$work/one.1" --data test.txt --allow allowed
expect 'labels that rank 0 has read' cmp one out
failing 2 1 'nothing.txt: No such file' "$ranked" predict --model one.1 --data test.txt --allow nothing.txt
# No more room for files, on the rank that writes: for a model; for checkpoints, without which training goes on; for the first
# checkpoint of a label tree, which ends its fit.
sed '1s/ 8 / 500 /' single.txt >wide.txt
set -- "$ranked" train --data wide.txt --estimator umax --optimizer adagrad --eta 0.1 --batch 17000 --evaluate-train no
failing 2 1 'rank 0: .*made.*: File too large' sh alone 0 'ulimit -f 48000' "$@" --epochs 1 --model made
on 2 sh alone 0 'ulimit -f 100000' "$@" --epochs 3 --model wide --checkpoint wide.point --checkpoint-every 0
expect 'no checkpoint' test $? -eq 1
expect 'no checkpoint, once' test "$(grep -c 'no checkpoint: rank 0: wide.point: .*File too large' log)" -eq 1
expect 'a model without a checkpoint' "$command" info wide
expect 'no checkpoint' test ! -e wide.point
rm -f wide wide.txt
ln -s /dev/full full.point
failing 3 1 'rank 0: .*No space left on device' "$ranked" train --method label-tree --data several.txt --set rounds=1 --model made \
    --checkpoint full.point

# The example.
on 1 "$cluster" one
mv out a
on 3 "$cluster" many
expect 'the example on 3 ranks' cmp one many
expect 'what it prints' test "$(head -n 1 out)" = "$(head -n 1 a)"
expect 'once' test "$(wc -l <out)" -eq 2
on 2 "$cluster" many single.txt
expect 'the example with a file' grep -q 'is of 2 ranks' out
on 2 "$cluster" many nothing.txt
expect 'a file that is not there' test $? -ne 0

[ "$failed" -eq 0 ] && echo "ranks of $kind: all as one process"
exit "$failed"
