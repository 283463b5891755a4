#!/bin/sh
# A row of the tables of the Extreme Classification Repository, of files that one has from there (bags of words): trains, tests,
# and prints P@1/3/5 and PSP@1/3/5 in %, the hours of both together (reading and choosing included) and GB.
#
#   sh bench/xc.sh FOLDER [FLAG]...     FLAGs of `xsoftmax train` name a method; without them the command chooses
#
# FOLDER has train.txt and test.txt, or trn_X_Xf.txt, trn_X_Y.txt, tst_X_Xf.txt and tst_X_Y.txt. Propensities are those of the
# tables: Amazon's, where FOLDER's name has that word, Wikipedia's, or those of the others.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=bench/compare/setup.sh
. "$root/bench/compare/setup.sh"

[ -d "${1-}" ] || fail "usage: sh bench/xc.sh FOLDER [FLAG]..."
folder=$(cd "$1" && pwd)
shift
build_program xsoftmax
cd "$folder"
if [ -f train.txt ] && [ -f test.txt ]; then
    train='--data train.txt' test='--data test.txt'
elif [ -f trn_X_Xf.txt ] && [ -f tst_X_Xf.txt ]; then
    train="--data trn_X_Xf.txt --labels-from trn_X_Y.txt"
    test="--data tst_X_Xf.txt --labels-from tst_X_Y.txt"
else
    fail "$folder has neither train.txt and test.txt nor trn_X_Xf.txt and tst_X_Xf.txt"
fi
[ ! -f filter_labels_test.txt ] ||
    say "The tables leave out the pairs of filter_labels_test.txt; the row below counts them as others." >&2
case ${folder##*/} in
*[Aa]mazon*) propensity="--propensity-a 0.6 --propensity-b 2.6" ;;
*[Ww]iki*) propensity="--propensity-a 0.5 --propensity-b 0.4" ;;
*) propensity= ;;
esac

scratch=$(mktemp -d "$build/xc.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
# shellcheck disable=SC2086
{
    begin=$(date +%s)
    "$program" train $train --model "$scratch/model" "$@" --json >"$scratch/train.json"
    "$program" evaluate $test --model "$scratch/model" $propensity --no-f1 --json >"$scratch/test.json"
    seconds=$(($(date +%s) - begin))
}
"$python" - "$scratch" "$seconds" "${folder##*/}" <<'END'
import json, sys
train, test = (json.load(open(f"{sys.argv[1]}/{stage}.json")) for stage in ("train", "test"))
figures = [100 * test["test"][measure][k] for measure in ("precision", "psp") for k in ("1", "3", "5")]
print("set | P@1 | P@3 | P@5 | PSP@1 | PSP@3 | PSP@5 | hours | model GB | peak GB")
print(sys.argv[3], *(f"{x:.2f}" for x in figures), f"{int(sys.argv[2]) / 3600:.3f}", f"{train['model_bytes'] / 1e9:.3f}",
      f"{max(train['peak_bytes'], test['peak_bytes']) / 1e9:.2f}", sep=" | ")
END
