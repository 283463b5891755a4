#!/bin/sh
# Builds the library and runs every test. On a fresh Debian it first installs what is missing.
#
#   sh tests/run.sh [MESON-OPTION...]     the options count when build-tests/ is first configured
#
# The last line is "N passed, N failed, N skipped"; the exit status is 0 only if nothing failed.
#
# With $XSM_TEST_FULL every test runs, and tries all that it can: numbers of ranks and threads, a failure at every place. Without
# it the suite `full` is left out, which is said below. With $XSM_TEST_BRIEF, which .ci/run sets for a bare Debian once all tests
# have passed, only what rests on the system runs: programs, files, headers, libraries, ranks that are processes.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
# shellcheck source=examples/setup.sh
. "$root/examples/setup.sh"

# The optima of real data are computed again where the data are.
[ ! -d "${XSM_DATA:-$root/../shared/data}/bibtex" ] || test_packages="$test_packages python3-scipy:scipy.py"
# shellcheck disable=SC2086
need_packages $build_packages $test_packages || fail "the packages above are needed"

build=$root/build-tests
say "Building in $build ..."
build_tree "$build" "$@" || build_failed "$build" "$@"

log=$build/meson-logs/run.txt
suites='--no-suite full'
if [ -n "${XSM_TEST_FULL-}" ]; then
    suites=
elif [ -n "${XSM_TEST_BRIEF-}" ]; then
    suites="$suites --no-suite heavy --suite base --suite cpp --suite data --suite model --suite examples --suite structure --suite mpi"
    say "XSM_TEST_BRIEF: only tests of what rests on the system run."
fi
[ -z "$suites" ] || say "Left to XSM_TEST_FULL=1: $(meson test -C "$build" --no-rebuild --suite full --list | sed 's,.* / ,,' | paste -sd' ')"
say "Running the tests ..."
# Tests have time limits for an idle machine: allow for a busy one.
status=0
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 5 $suites >"$log" 2>&1 </dev/null || status=$?
cat "$log"

# The runner's own summary, "Ok: 12" and so on, as one line.
count() {
    sed -n "s/^$1: *\([0-9][0-9]*\) *$/\1/p" "$log" | tail -n 1
}
for name in 'Ok' 'Expected Fail' 'Fail' 'Unexpected Pass' 'Skipped' 'Timeout'; do
    [ -n "$(count "$name")" ] || fail "the test runner did not end properly (status $status); its output is above"
done
passed=$(($(count 'Ok') + $(count 'Expected Fail')))
failed=$(($(count 'Fail') + $(count 'Unexpected Pass') + $(count 'Timeout')))
skipped=$(count 'Skipped')
[ "$failed" -eq 0 ] || status=1

if [ "$status" -eq 0 ]; then
    say "The library is built and its tests pass. Next: sh examples/run.sh, or see README.md for how to link it."
else
    say "Some tests failed. What they printed is above and in $build/meson-logs/testlog.txt;"
    say "one test again: meson test -C $build -v NAME"
fi
say "$passed passed, $failed failed, $skipped skipped"
exit "$status"
