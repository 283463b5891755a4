# bash completion for xsoftmax: commands, their options from --help, names of methods, and files.
_xsoftmax() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]} words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$before" = help ]; }; then
        words=$("$program" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z-]*\) .*/\1/p')
        [ "$COMP_CWORD" -eq 2 ] || words="$words help --help --version"
    elif [[ $current == -* ]]; then
        words=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
    elif [ "$before" = --method ]; then
        words='label-tree'
    elif [ "$before" = --type ]; then
        words=$("$program" convert-model --help 2>/dev/null | sed -n 's/^ *--type NAME .*: //p' | tr -d ,)
    elif [ "$before" = --evaluate-train ]; then
        words='no all sample'
    elif [ "$before" = --new-words ]; then
        words='yes no'
    elif [ "$before" = --header ]; then
        words='auto yes no'
    elif [ "$before" = --duplicates ]; then
        words='fail sum'
    elif [ "$before" = --bad-bytes ]; then
        words='fail replace'
    elif [ "$before" = --exclude ]; then
        words='known nothing'
    else
        local list=${COMP_WORDS[1]}
        case $before in
        --estimator) list=estimators ;;
        --optimizer) list=optimizers ;;
        --index) list=indexes ;;
        esac
        case $list in
        estimators | samplers | optimizers | indexes)
            words=$("$program" "$list" 2>/dev/null | sed -n 's/^\([a-z][a-z-]*\) .*/\1/p')
            [ "$before" != --optimizer ] || words="$words lbfgs"
            ;;
        *) # files
            return
            ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _xsoftmax xsoftmax
