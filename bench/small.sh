#!/bin/sh
# What bfloat16 and int8 weights gain and lose: times of predictions by bench_small, and P@1, P@5 and file sizes of models
# that `xsoftmax train` has trained on real sets, before and after `xsoftmax convert-model`.
#
#   sh bench/small.sh [--loss]     see doc/measurements/small_models.md; --loss leaves the times out
#
# Real data comes from $XSM_DATA or ../shared/data; missing sets are skipped. On a fresh Debian it first installs missing
# packages. About four minutes on an otherwise idle machine.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

times=yes
for word in "$@"; do
    case $word in
    --loss) times=no ;;
    *) fail "no option '$word'; there is --loss" ;;
    esac
done

# shellcheck disable=SC2086,SC2154
need_packages $build_packages >&2 || fail "the packages above are needed"
build_bench

[ "$times" = no ] || "$build/bench/bench_small" || exit 1

data=${XSM_DATA:-$root/../shared/data}
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-small.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# after NAME: a measure after the conversion, and before.
after() {
    sed -n "s/^$1 *\([0-9.]*\), was \([0-9.]*\) .*/\1 | \2/p" "$work/said"
}

# times_of NAME: the times of a query of the label tree of NAME in every type, in the order of its rows.
times_of() {
    file=$work/test.txt
    gzip -dc "$data/$1/$1_test.txt.gz" >"$file"
    "$build/bench/bench_small" --calls 20 --data "$file" --models "$work/model" "$work/bfloat16" "$work/int8" ||
        fail "bench_small ended with an error"
}

# measure NAME OPTION...: trains on a set, and converts the model to each type.
measure() {
    set_name=$1
    shift
    train=$data/$set_name/${set_name}_train.txt.gz
    if [ ! -f "$train" ]; then
        say "Skipping $set_name: $train is not there." >&2
        return
    fi
    "$build/examples/xsoftmax" train --data "$train" --model "$work/model" --seed 1 --threads 1 "$@" >"$work/said" 2>&1 ||
        fail "$(cat "$work/said")"
    for type in bfloat16 int8; do
        "$build/examples/xsoftmax" convert-model --model "$work/model" --output "$work/$type" --type "$type" \
            --test "$data/$set_name/${set_name}_test.txt.gz" --threads 1 >"$work/said" 2>&1 || fail "$(cat "$work/said")"
        printf '| %s | %s | %s | %s | %s |\n' "$set_name" "$type" "$(after P@1)" "$(after P@5)" \
            "$(awk "BEGIN { printf \"%.2f\", $(wc -c <"$work/$type") / $(wc -c <"$work/model") }")"
    done
}

echo '| set | type | P@1 | float32 | P@5 | float32 | file |'
echo '|---|---|---|---|---|---|---|'
measure corel5k --estimator one-vs-all --epochs 10 --eta 0.1 --labels all
measure bibtex --estimator one-vs-all --epochs 10 --eta 0.2 --labels all
measure delicious --estimator one-vs-all --epochs 5 --eta 0.1 --labels all
measure hmc-cellcycle-go --estimator one-vs-all --epochs 5 --eta 0.01 --labels all
measure 20news --estimator softmax --epochs 10 --eta 0.5 --transform tfidf,unit
measure mnist --estimator softmax --epochs 3 --eta 0.05 --transform unit
measure s3rec-beauty --hidden 64 --estimator sampled-softmax --epochs 5 --eta 0.1 --optimizer adagrad
measure kg-fb15k237 --hidden 100 --estimator sampled-softmax --epochs 3 --eta 0.1 --optimizer adagrad
measure kg-nell-995 --hidden 50 --estimator sampled-softmax --epochs 2 --eta 0.1 --optimizer adagrad
measure poetry-author-uni --hidden 100 --estimator sampled-softmax --epochs 2 --eta 0.1 --optimizer adagrad

echo
echo 'Label trees, and the time of a query by a beam of 10:'
echo
echo '| set | type | P@1 | float32 | P@5 | float32 | file |'
echo '|---|---|---|---|---|---|---|'
for set_name in bibtex delicious kg-nell-995 corel5k; do
    measure "$set_name" --method label-tree --labels all
    [ ! -f "$work/int8" ] || [ "$times" = no ] || times_of "$set_name"
    rm -f "$work/int8"
done
