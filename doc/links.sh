#!/bin/sh
# Doxygen's filter for a page: links between pages are plain Markdown (`[the trainer](../guide/training.md)`), which the
# repository's web pages follow; Doxygen gets references to the pages' ids: guide_NAME, measure_NAME and decisions_NAME.
#
#   sh links.sh PAGE
case $1 in
*/guide/*) here=guide_ ;;
*/measurements/*) here=measure_ ;;
*/decisions/*) here=decisions_ ;;
*) here='' ;;
esac
case $1 in
*/doc/decisions.md) down=@subpage ;; # a map: its links are the tree of pages
*) down=@ref ;;
esac
sed -E \
    -e 's,\]\(\.\./guide/([a-z_0-9]+)\.md\),](@ref guide_\1),g' \
    -e 's,\]\(\.\./measurements/([a-z_0-9]+)\.md\),](@ref measure_\1),g' \
    -e 's,\]\(\.\./decisions/([a-z_0-9]+)\.md\),](@ref decisions_\1),g' \
    -e 's,\]\(\.\./([a-z_0-9]+)\.md\),](@ref \1),g' \
    -e 's,\]\(\.\./measurements/images/,](images/,g' \
    -e 's,\]\(measurements/images/,](images/,g' \
    -e "s,\\[([^]]*)\\]\\(guide/([a-z_0-9]+)\\.md\\),$down guide_\\2 \"\\1\",g" \
    -e "s,\\[([^]]*)\\]\\(measurements/([a-z_0-9]+)\\.md\\),$down measure_\\2 \"\\1\",g" \
    -e "s,\\[([^]]*)\\]\\(decisions/([a-z_0-9]+)\\.md\\),$down decisions_\\2 \"\\1\",g" \
    -e "s,\\[([^]]*)\\]\\(([a-z_0-9]+)\\.md\\),$down $here\\2 \"\\1\",g" \
    "$1"
