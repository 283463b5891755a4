#!/bin/sh
# The program that reprints the papers' tables and figures, on sizes cut down: every figure runs, prints a table or lines
# of JSON and nothing else, and its plots can be drawn where gnuplot is there.
#
#   test_papers.sh PAPERS FIGURES.SH
set -u
LC_ALL=C
export LC_ALL
papers=$1
figures=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/xsoftmax-papers.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

wrong() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$1"
}

"$papers" --list >"$work/list" || wrong "--list ends with an error"
names=$(awk '$1 != "all" { print $1 }' "$work/list")
[ -n "$names" ] || wrong "--list names nothing"
"$papers" >"$work/bare" || wrong "without a name it ends with an error"
cmp -s "$work/list" "$work/bare" || wrong "without a name it does not list the figures"
"$papers" no_such_figure >"$work/out" 2>"$work/err" && wrong "an unknown figure is accepted"
grep -q "no_such_figure" "$work/err" || wrong "an unknown figure is not named"
[ -s "$work/out" ] && wrong "a usage error prints to standard output"
"$papers" "$(echo "$names" | head -n 1)" --quick --folder "$work/no/such/folder" >/dev/null 2>&1 &&
    wrong "a folder that cannot be made is accepted"

"$papers" ove_toy --quick --folder "$work/toy" --budget 1 >"$work/out" 2>"$work/err" && wrong "--budget is taken by any figure"
grep -q "adversarial_curves" "$work/err" || wrong "what takes --budget is not said"
for bad in "--only nobody" "--budget 0" "--budget x" "--scale 0.5" "--scale 2.5" "--scale 2000" "--sets nobody" "--sets made,nobody"; do
    # shellcheck disable=SC2086
    "$papers" adversarial_curves --quick --folder "$work/bad" $bad >/dev/null 2>&1 && wrong "$bad is accepted"
done
"$papers" estimators_time --quick --folder "$work/bad" --scale 2 >/dev/null 2>&1 && wrong "--scale is taken without generated data"
"$papers" ldgs_equal_time --quick --folder "$work/bad" --only nobody >/dev/null 2>&1 && wrong "ldgs_equal_time takes any method"
"$papers" adversarial_curves --quick --sets made --processor --only NCE,uniform --scale 2 --json --folder "$work/some" >"$work/some.json" 2>/dev/null ||
    wrong "two methods of adversarial_curves end with an error"
grep -q '"column":"NCE"' "$work/some.json" || wrong "a method that was asked for is missing"
grep -q '"column":"adversarial"' "$work/some.json" && wrong "a method runs that was not asked for"

# As tables; without XSM_TEST_FULL each fifth, as all of them run once more below.
tables=$names
[ -n "${XSM_TEST_FULL-}" ] || tables=$(echo "$names" | sed -n '1~5p')
for name in $tables; do
    "$papers" "$name" --quick --threads 2 --folder "$work/$name" >"$work/table" 2>"$work/err" || {
        wrong "$name ends with an error"
        sed 's/^/    /' "$work/err"
        continue
    }
    if grep -q '^skipped: ' "$work/err" && [ ! -s "$work/table" ]; then
        printf '%s\n' "$name: $(grep '^skipped: ' "$work/err" | head -n 1)"
        continue
    fi
    grep -q "^$name: .*([0-9]* s)$" "$work/table" || wrong "$name: the table has no title"
    grep -q '^| ours (paper) *|' "$work/table" || wrong "$name: no table is printed"
done

# The comparison of pages with a run: a number that fits, one that does not, one of no cell, a table that says nothing.
check=$(dirname "$figures")/check.sh
echo '{"figure":"f","row":"A, loss","column":"m","paper":2.5,"ours":0.1234}' >"$work/run"
compare() { # NOTE HEAD CELL
    printf '%s\n| | %s |\n|---|---|\n| m | %s |\n' "$1" "$2" "$3" >"$work/page.md"
    sh "$check" "$work/run" "$work/page.md" >"$work/said" 2>&1
}
# $c and $r are the page's.
# shellcheck disable=SC2016
note='<!-- cells f: row "A, $c", column "$r" -->'
compare "$note" loss "0.123 (2.5)" || wrong "a number that is the run's differs"
compare "$note" loss "0.124 (2.5)" && wrong "a number that is not the run's passes"
compare "$note" loss "0.123 (2.6)" && wrong "a number that is not the paper's passes"
compare "$note" gain "0.123" && wrong "a number of no cell passes"
grep -q "no run gives f: 'A, gain', 'm'" "$work/said" || wrong "the missing cell is not named"
compare "" loss "0.123" && wrong "a table that says nothing of cells passes"
compare "${note% -->} within 2 % -->" loss "0.125" || wrong "a number within its bound differs"
compare "${note% -->} ratio 2 -->" loss "0.2" || wrong "a number within its factor differs"
compare "${note% -->} ratio 2 -->" loss "0.3" && wrong "a number beyond its factor passes"
compare '<!-- no run: by hand -->' loss "7" || wrong "a table that no run gives fails"
grep -q "no run gives this table: by hand" "$work/said" || wrong "the reason is not said"

# Once more, as lines of JSON, and drawn.
if command -v gnuplot >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    sh "$figures" "$papers" "$work/drawn" $names --quick --json >"$work/json" 2>"$work/err" || {
        wrong "plots cannot be drawn"
        tail -n 20 "$work/err" | sed 's/^/    /'
    }
    grep -iE '^(warning|error)|undefined|empty' "$work/err" && wrong "gnuplot has complaints"
    for table in "$work/drawn"/*.csv; do
        name=${table##*/}
        name=${name%.csv}
        case $name in *-*) continue ;; esac
        for kind in svg png; do
            [ -s "$work/drawn/$name.$kind" ] || wrong "$name.$kind is not drawn"
        done
    done
else
    echo "gnuplot is not there: no plots drawn"
    "$papers" all --quick --json --folder "$work/drawn" >"$work/json" 2>/dev/null || wrong "all --json fails"
fi
for name in $names; do
    [ -e "$work/drawn/$name.csv" ] || {
        [ -d "$work/$name" ] || "$papers" "$name" --quick --threads 2 --folder "$work/$name" >/dev/null 2>&1
        [ -e "$work/$name/$name.csv" ] && wrong "$name writes no table"
        continue
    }
    python3 - "$name" "$work/json" "$work/drawn/$name.csv" <<'END' || wrong "$name: its lines are not as they should be"
import csv, json, math, sys
name, table = sys.argv[1], sys.argv[3]
cells = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
cells = [cell for cell in cells if cell["figure"] == name]
assert cells
for cell in cells:
    assert list(cell) == ["figure", "row", "column", "paper", "ours"], cell
    assert cell["row"] and cell["column"], cell
    for number in (cell["paper"], cell["ours"]):
        assert number is None or math.isfinite(number), cell
assert any(cell["ours"] is not None for cell in cells)
assert len({(cell["row"], cell["column"]) for cell in cells}) == len(cells)
rows = list(csv.DictReader(open(table, encoding="utf-8", newline="")))
assert [(r["row"], r["column"]) for r in rows] == [(c["row"], c["column"]) for c in cells]
END
done

[ "$failures" -eq 0 ] || exit 1
echo "every figure runs"
