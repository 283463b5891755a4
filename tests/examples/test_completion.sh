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
completes int8 convert-model --type i
completes spherical predict --index s
completes known predict --exclude k
completes '' predict --allow l
completes frequency samplers fr
completes --help estimators -
completes convert help con
completes help he
completes '' train --data tr

# Options that the command's texts name are options of some command.
options=$(for command in $("$program" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p'); do "$program" "$command" --help; done |
    sed -n 's/^  *\(--[a-z-]*\).*/\1/p' | tr '\n' ' ')
named=$(grep -oh '"[^"]*"' "${2%/*}"/cli/*.c | grep -o -e '--[a-z][a-z-]*[a-z]' | sort -u)
for option in $named; do
    case " $options--version " in
    *" $option "*) ;;
    *) echo "no command has $option" && exit 1 ;;
    esac
done
