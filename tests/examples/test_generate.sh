#!/bin/sh
# Rows of very many labels: the same whatever their number, of the shape that was asked for, and as good to rank as the
# generator's formula says.
#
#   test_generate.sh BENCH_GENERATE_LABELS BENCH_GENERATE_ALIKE
set -u
LC_ALL=C
export LC_ALL
absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
    esac
}
generate=$(absolute "$1") alike=$(absolute "$2")
failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-generate.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

expect() {
    said=$1
    shift
    "$@" || { echo "FAILED: $said"; failed=1; }
}

small='features=4000 classes=3000 groups=60 labels=3 seed=7'
# shellcheck disable=SC2086
"$generate" train $small rows=4000 >long 2>long.said && "$generate" train $small rows=50 >short 2>short.said &&
    "$generate" test $small rows=4000 >other 2>other.said || failed=1
expect 'the head' test "$(head -n 1 long)" = '4000 4000 3000'
expect 'as many rows' test "$(wc -l <long)" -eq 4001
sed 1d short >first && sed -n 2,51p long | cmp -s - first
expect 'the first rows do not depend on how many follow' test $? -eq 0
expect 'other rows to test on' test "$(sed -s 1d long other | sort | uniq -d | wc -l)" -eq 0
# Between P@k in expectation and of the labels drawn, of 4000 rows, lie 4 standard errors (0.5/63) at most.
awk '{
    for (i = 1; i <= NF; i++) if ($i == "best") at = i
    for (k = 0; k < 3; k++) {
        best = $(at + 2 + 2 * k); drawn = $(at + 8 + k); gsub(/[^0-9.]/, "", drawn)
        if (!(best > 0.2 && best <= 1) || best - drawn > 0.032 || drawn - best > 0.032) { print best, drawn; exit 1 }
    }
}' long.said
expect "the best ranking is as good as it is said to be: $(cat long.said)" test $? -eq 0
# shellcheck disable=SC2016 # the dollars are awk's
# Labels occur as often as their law says: a row has 3 at most in the mean, less what the cap and repetition change.
expect 'labels a row' awk 'NR > 1 { n += split($1, l, ","); rows++ } END { exit !(n / rows > 2.4 && n / rows < 3.2) }' long
# shellcheck disable=SC2016
expect 'features rise' awk 'NR > 1 { before = -1; for (i = 2; i <= NF; i++) { if ($i + 0 <= before) exit 1; before = $i + 0 } }' long
for wrong in 'half' 'train rows' 'train rows=0' 'train rows=3x' 'train colour=3' 'train features=200'; do
    # shellcheck disable=SC2086
    "$generate" $wrong >/dev/null 2>said
    expect "refused: $wrong" test $? -eq 2 -a -s said
done

# Look-alikes: a label's own words are in 7 of 10 of its rows, the words of its group in a row by the share that ten draws
# of forty find, 1 - (39/40)^10 = .224; the other words are draws from all.
small='features=3000 classes=600 groups=30 zipf=0 seed=7'
# shellcheck disable=SC2086
"$alike" train $small rows=30000 >long && "$alike" train $small rows=50 >short &&
    "$alike" test $small rows=30000 >other || failed=1
expect 'the head of look-alikes' test "$(head -n 1 long)" = '30000 3000 600'
expect 'as many rows of look-alikes' test "$(wc -l <long)" -eq 30001
sed 1d short >first && sed -n 2,51p long | cmp -s - first
expect 'the first look-alikes do not depend on how many follow' test $? -eq 0
expect 'other look-alikes to test on' test "$(sed -s 1d long other | sort | uniq -d | wc -l)" -eq 0
# Of the pairs of a label and a word, by the share of the label's rows, about 50, with the word: 600 x 4 of .7, 600 x 40 of
# .224, but for those that coincide. The middle of the gaps between the binomials of 50 draws tells them apart to 2 %.
# shellcheck disable=SC2016
expect 'words of labels and of groups' awk 'NR > 1 {
    rows[$1]++
    for (i = 2; i <= NF; i++) { split($i, w, ":"); n[$1 " " w[1]]++ }
} END {
    for (p in n) { split(p, l, " "); share = n[p] / rows[l[1]]; own += share > .46; group += share <= .46 && share > .07 }
    exit !(own > 2300 && own < 2450 && group > 22500 && group < 24500)
}' long
# shellcheck disable=SC2086
"$alike" train $small labels=3 rows=2000 >several || failed=1
# Two draws more of the 20 labels of a group: 3 - 3/20 labels a row, about.
# shellcheck disable=SC2016
expect 'labels of look-alikes' awk 'NR > 1 { n += split($1, l, ","); rows++ }
    END { exit !(n / rows > 2.8 && n / rows < 2.9) }' several
# shellcheck disable=SC2016
expect 'features of look-alikes rise' awk 'NR > 1 { b = -1; for (i = 2; i <= NF; i++) { if ($i + 0 <= b) exit 1; b = $i + 0 } }' \
    long
for wrong in 'half' 'train rows=0' 'train rows=3x' 'train colour=3' 'train kept=2'; do
    # shellcheck disable=SC2086
    "$alike" $wrong >/dev/null 2>said
    expect "refused of look-alikes: $wrong" test $? -eq 2 -a -s said
done
exit $failed
