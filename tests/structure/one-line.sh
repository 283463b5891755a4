#!/bin/sh
# Whether a new method is one file and one line. In a copy of the tree this adds an estimator, a sampler, an index, a
# loss and an optimizer (tests/structure/one_line/), builds, and looks for each in the library's lists, in the command's
# help and in the suite for its kind:
#
#   sh tests/structure/one-line.sh [MESON-OPTION...]
#
# Prints the lines that each took. Ends with 77 where the tree is no checkout.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
methods=$root/tests/structure/one_line
if ! git -C "$root" ls-files --error-unmatch meson.build >/dev/null 2>&1; then
    echo "skipped: $root is no checkout, so what belongs to it is not known"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
tree=$work/tree
cd "$root" || exit 1
mkdir "$tree" || exit 1
git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- | tar -x -C "$tree" || exit 1
cd "$tree" || exit 1
{ git init -q . && git add -A; } || exit 1

good=0
fail() {
    echo "FAILED: $*"
    exit 1
}

# add KIND NAME FOLDER FILE HEADER LIST LINE: copies the method's file into lib/FOLDER, and inserts LINE into the list
# LIST of the header, behind its first entry, and the file's name into the folder's meson.build. Nothing else may
# change, and no line may go.
add() {
    cp "$methods/$4" "lib/$3/$4" || exit 1
    sed -i "/^#define $6(X)/{n;s/\$/\\n    $7 \\\\/;}" "lib/$5" || exit 1
    sed -i "s/^lib_sources += files(\$/&\\n  '$4',/" "lib/$3/meson.build" || exit 1
    git add -N "lib/$3/$4"
    lines=$(wc -l <"lib/$3/$4")
    want=$(printf '%s\n' "$lines 0 lib/$3/$4" "1 0 lib/$5" "1 0 lib/$3/meson.build" | sort)
    have=$(git diff --numstat | tr '\t' ' ' | sort)
    [ "$have" = "$want" ] || fail "$1: changed were (lines added, lines removed, file)
$have"
    echo "$1 $2: lib/$3/$4 ($lines lines), and"
    git diff -U0 "lib/$5" "lib/$3/meson.build" | sed -n '/^+++/d; s/^+ */    /p'
    git add -A
}

add sampler log-uniform sampler log_uniform.c sampler/sampler.h XSMI_SAMPLERS 'X(xsmi_log_uniform_ops, "log-uniform")'
add index scan index scan.c index/index.h XSMI_INDEXES 'X(xsmi_scan_index_ops, "scan")'
add loss logistic loss logistic.c loss/loss.h XSMI_LOSSES 'X(xsmi_loss_logistic, "logistic")'
add estimator perceptron methods perceptron.c methods/method.h XSMI_ESTIMATORS 'X(xsmi_perceptron_ops)'
add optimizer sign optimizer sign.c optimizer/optimizer.h XSMI_OPTIMIZERS 'X(xsmi_sign_ops)'

build=$tree/build-tests # compiler caches know the files from the checkout's own build
if ! { meson setup "$build" "$tree" -Dtests=false -Dexamples=false -Dwerror=true "$@" && ninja -C "$build"; } \
    >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    fail "the copy does not build"
fi
xsoftmax=$build/examples/xsoftmax
${CC:-cc} -std=c11 -I"$tree/include" "$methods/check.c" -o "$work/check" -L"$build/lib" -lxsoftmax \
    -Wl,-rpath,"$build/lib" || exit 1

# found KIND NAME COMMAND...: the method is in what the command prints, as a word, and in the library's list, and passes
# the suite.
found() {
    kind=$1 name=$2
    shift 2
    "$xsoftmax" "$@" | grep -Eq "(^|[ ,])$name([ ,]|\$)" || fail "$kind $name is not in 'xsoftmax $*'"
    "$work/check" "$kind" "$name" || fail "$kind $name"
    good=$((good + 1))
}

found sampler log-uniform samplers
found index scan indexes
found loss logistic estimators decomp-mips
found estimator perceptron estimators
found optimizer sign optimizers

# The two together must learn what is easy.
i=0
while [ $i -lt 60 ]; do
    echo "$((i % 3)) $((i % 3)):1 3:0.5"
    i=$((i + 1))
done >"$work/rows.txt"
"$xsoftmax" train --data "$work/rows.txt" --test "$work/rows.txt" --estimator perceptron --optimizer sign --eta 0.1 \
    --epochs 5 --model "$work/model.safetensors" >"$work/log" 2>&1
if ! grep -q '^test .*error 0.00 %' "$work/log"; then
    cat "$work/log"
    fail "training with the new optimizer and the new estimator"
fi
echo "$good of 5 kinds: one file and one line"
[ $good -eq 5 ]
