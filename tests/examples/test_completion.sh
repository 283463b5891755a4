#!/usr/bin/env bash
# What bash completes: test_completion.sh XSOFTMAX COMPLETION
set -u
program=$1 failed=0
# shellcheck source=examples/xsoftmax.bash
. "$2"

# completes WANTED WORD...: WANTED is among what the last word, perhaps empty, can become; "" = nothing is (files are).
completes() {
    local wanted=$1
    shift
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    _xsoftmax
    case " ${COMPREPLY[*]} " in
    *" $wanted "*) [ -n "$wanted" ] || [ ${#COMPREPLY[@]} -eq 0 ] || failed=1 ;;
    *) failed=1 ;;
    esac
    [ "$failed" -eq 0 ] || { echo "xsoftmax $*: '$wanted' is not among: ${COMPREPLY[*]}" && exit 1; }
}

completes train tr
completes --version --
completes --estimator train --est
completes --beam predict --b
completes sampled-softmax train --estimator sam
completes sample train --evaluate-train s
completes lbfgs train --data x --optimizer l
completes spherical predict --index s
completes known predict --exclude k
completes '' predict --allow l
completes frequency samplers fr
completes --help estimators -
completes convert help con
completes help he
completes '' train --data tr
