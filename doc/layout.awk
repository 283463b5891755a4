# Doxygen's layout, of index.md: the sidebar has its topics and their pages; on pages of the interface the overview comes first.
#
#   awk -f layout.awk index.md >layout.xml
function group(title) {
    if (open)
        print "    </tab>"
    open = 1
    print "    <tab type=\"usergroup\" visible=\"yes\" title=\"" title "\">"
}
function pages(text,    link, title, path) {
    while (match(text, /\[[^]]*\]\([a-z_\/]+\.md\)/)) {
        link = substr(text, RSTART + 1, RLENGTH - 2)
        text = substr(text, RSTART + RLENGTH)
        split(link, part, /\]\(/)
        title = part[1]
        path = part[2]
        sub(/\.md$/, "", path)
        sub(/^guide\//, "guide_", path)
        sub(/^measurements\//, "measure_", path)
        gsub(/ +/, " ", title)
        gsub(/&/, "\\&amp;", title)
        title = toupper(substr(title, 1, 1)) substr(title, 2)
        print "      <tab type=\"user\" visible=\"yes\" url=\"@ref " path "\" title=\"" title "\"/>"
    }
}
function members(kind) { # of a page of the interface, in this order
    print "  <" kind ">\n    <briefdescription visible=\"yes\"/>\n    <detaileddescription title=\"\"/>"
    print "    <memberdecl>\n      <nestedgroups visible=\"yes\" title=\"\"/>\n      <classes visible=\"yes\" title=\"\"/>"
    print "      <functions title=\"\"/>\n      <typedefs title=\"\"/>\n      <enums title=\"\"/>\n      <defines title=\"\"/>"
    print "      <variables title=\"\"/>\n      <membergroups visible=\"yes\"/>\n    </memberdecl>"
    print "    <memberdef>\n      <functions title=\"\"/>\n      <typedefs title=\"\"/>\n      <enums title=\"\"/>"
    print "      <defines title=\"\"/>\n      <variables title=\"\"/>\n    </memberdef>\n  </" kind ">"
}
BEGIN {
    print "<doxygenlayout version=\"1.0\">\n  <navindex>\n    <tab type=\"mainpage\" visible=\"yes\" title=\"\"/>"
}
/^\*\*Start\*\*/ { group("Start") }
/^\| \*\*/ { split($0, part, "[*][*]"); group(part[2]); next }
/^## (Measurements|Decisions)/ { pages(held); held = ""; group($2) }
open { # a link may go on in the next line
    held = held (held == "" ? "" : " ") $0
    if (held ~ /\)[^[]*$/ || held !~ /\[/) {
        pages(held)
        held = ""
    }
}
END {
    pages(held)
    print "    </tab>\n    <tab type=\"modules\" visible=\"yes\" title=\"Interface\" intro=\"\"/>"
    print "    <tab type=\"files\" visible=\"yes\" title=\"Headers\">\n      <tab type=\"filelist\" visible=\"yes\" title=\"\" intro=\"\"/>"
    print "      <tab type=\"globals\" visible=\"yes\" title=\"\" intro=\"\"/>\n    </tab>\n  </navindex>"
    members("group")
    print "</doxygenlayout>"
}
