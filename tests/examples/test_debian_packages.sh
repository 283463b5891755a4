#!/bin/sh
# examples/debian-packages.sh on package lists made up here, so that it is tested where there is no apt.
#
#   test_debian_packages.sh SCRIPT
# shellcheck source=tests/examples/checks.sh
. "$(dirname "$0")/checks.sh"
script=$(path_of "$1")

# An apt-cache that knows what is in the file "lists".
mkdir bin
cat >bin/apt-cache <<STUB
#!/bin/sh
[ "\$1" = dumpavail ] && cat "$work/lists"
STUB
chmod +x bin/apt-cache
PATH=$work/bin:$PATH

# Forty packages of three maintainers, one twice, and the fields in ways that lists have them.
awk 'BEGIN {
    for (i = 0; i < 40; i++) {
        m = i % 3
        printf "Package: lib%c-tool%d\n", 97 + m, i
        printf "Maintainer: %s\n", m == 0 ? "\303\201da <ada@x>" : m == 1 ? "Team: B <b@x>" : "Cy <c@x>"
        if (i % 4 > 0)
            printf "Depends: libc6 (>= 2.3), dup, dup (<< 9) | other:any, pkg%d\n", m
        if (i == 7)
            printf "Description-en: Word%d word word\n caf\303\251 more\twords\n", m
        else
            printf "Description: Word%d word word, caf\303\251\n", m
        printf "Description-md5: 0123456789abcdef\n"
        printf "Section: s%d\nTag: role::program, use::x%d,\n uitoolkit::y\n\n", m, m
    }
    print "Package: liba-tool0\nMaintainer: Somebody Else\nDescription: again\nSection: s9\n"
    print "Package: alone\nDescription: without a maintainer\nSection: s9\n"
}' >lists

expect 'it runs' sh "$script" out >log
expect 'it says what it made' grep -q ': [0-9]* training and [0-9]* test packages, [0-9]* words, 3 labels$' log
body() {
    tail -n +2 "$1"
}
{ body out/train.txt && body out/test.txt; } >rows
cat out/train-packages.tsv out/test-packages.tsv >packages
expect 'each package once, those without a label left out' test "$(wc -l <rows)" -eq 40
expect 'a name a row' test "$(wc -l <packages)" -eq 40
expect 'the header tells the numbers' test "$(head -n 1 out/train.txt)" = \
    "$(body out/train.txt | wc -l) $(wc -l <out/vocabulary.txt) 3"
expect 'labels in UTF-8, in order' test "$(cat out/labels.txt)" = "$(printf 'Cy <c@x>\nTeam: B <b@x>\n\303\201da <ada@x>')"
expect 'words in UTF-8' grep -qx "$(printf 'caf\303\251')" out/vocabulary.txt
expect 'section and tags are words of their own' test "$(grep -c '::' out/vocabulary.txt)" -eq 8
expect 'rare words are left out' test "$(grep -c 'tool7' out/vocabulary.txt)" -eq 0
expect 'words are counted' grep -q " $(($(grep -nx word out/vocabulary.txt | cut -d : -f 1) - 1)):2" rows
expect 'features rise in every row' test "$(awk '{ for (i = 3; i <= NF; i++) { split($(i - 1), a, ":")
    split($i, b, ":"); if (b[1] <= a[1]) bad++ } } END { print bad + 0 }' rows)" -eq 0
expect 'row and name belong together' test "$(paste -d ' ' rows packages | awk '{
    label = $1; name = $0; sub(/.*lib/, "", name); letter = substr(name, 1, 1)
    if (letter != (label == 0 ? "c" : label == 1 ? "b" : "a")) bad++ } END { print bad + 0 }')" -eq 0
expect 'nothing else is left' test "$(find out | wc -l)" -eq 7

mkdir before
cp out/* before
expect 'it runs again' sh "$script" out >log
expect 'with the same result' diff -r before out

expect 'dependencies' sh "$script" "odd 'na\\me" --depends --min-count 1 >log
expect 'every alternative is a label' test "$(tr '\n' ' ' <"odd 'na\\me/labels.txt")" = 'dup libc6 other pkg0 pkg1 pkg2 '
expect 'packages without are left out' test "$(cat "odd 'na\\me/train.txt" "odd 'na\\me/test.txt" | wc -l)" -eq 32
expect 'labels in the order of the list, no label twice' test \
    "$(body "odd 'na\\me/train.txt" | cut -d ' ' -f 1 | sort -u | tr '\n' ' ')" = '1,0,2,3 1,0,2,4 1,0,2,5 '

# refuse CODE PART ARGUMENT...
refuse() {
    wanted=$1
    part=$2
    shift 2
    code=0
    sh "$script" "$@" >stdout 2>stderr || code=$?
    expect "exit code $code, not $wanted: $*" test "$code" -eq "$wanted"
    expect "one line: $*" test "$(wc -l <stderr)" -eq 1
    expect "nothing on standard output: $*" test ! -s stdout
    expect "the message has '$part': $(cat stderr)" grep -qF -e "$part" stderr
}
refuse 2 'DIR is missing'
refuse 2 'DIR is empty' ''
refuse 2 "'b' is a second" a b
refuse 2 "unknown option '--dependencies'" a --dependencies
refuse 2 '--min-count needs a number' a --min-count
refuse 2 "'x' is not a whole number" a --min-count x
refuse 1 'no word occurs in 1000 packages' out --min-count 1000
refuse 1 'cannot make the directory' lists
: >lists
refuse 1 "run 'apt-get update'" out
printf '#!/bin/sh\necho "E: broken" >&2\nexit 100\n' >bin/apt-cache
refuse 1 'E: broken' out
expect 'a failed run leaves the files alone' diff -r before out
expect 'help' test "$(sh "$script" --help | head -n 1)" = "Usage: ${script##*/} DIR [--depends] [--min-count N]"

report
