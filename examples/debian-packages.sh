#!/bin/sh
# Makes training and test data from the packages in this machine's apt lists: see usage() below.
#
# Everything works on bytes in the C locale, so that the result depends on the package lists alone. UTF-8 is preserved:
# its bytes beyond ASCII count as letters.
set -eu
LC_ALL=C
export LC_ALL

program=${0##*/}

usage() {
    cat <<END
Usage: $program DIR [--depends] [--min-count N]

Turns the package lists of apt (apt-cache dumpavail) into data for a classifier,
a row for each package, in the text format of the Extreme Classification
Repository. The features of a package are the words of its description and name,
its section and its tags, each with the number of times that it occurs. Its label
is its maintainer, or, with --depends, the packages that it depends on.

  DIR             where the files go; made if it is not there
  --depends       labels are the packages named in Depends; others are left out
  --min-count N   leave out words that occur in fewer than N packages (default 3)
  -h, --help      print this

Files in DIR, replaced when all of them are complete:
  train.txt            rows to learn from, about nine in ten
  test.txt             the other rows, chosen by a hash of the package's name
  labels.txt           line i (from 0) names label i
  vocabulary.txt       line j (from 0) is the word of feature j
  train-packages.tsv   line i is the package of row i of train.txt: name, tab,
  test-packages.tsv    description; the same for test.txt
END
}

fail() {
    printf '%s: %s\n' "$program" "$1" >&2
    exit "${2:-1}"
}

misused() {
    fail "$1 (see $program --help)" 2
}

directory=
target=maintainer
min_count=3
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --depends) target=depends ;;
    --min-count)
        [ $# -ge 2 ] || misused "--min-count needs a number"
        shift
        case $1 in
        '' | *[!0-9]* | ?????????*) misused "--min-count: '$1' is not a whole number" ;;
        esac
        min_count=$1
        ;;
    -*) misused "unknown option '$1'" ;;
    '') misused "DIR is empty" ;;
    *)
        [ -z "$directory" ] || misused "one DIR is expected, '$1' is a second"
        directory=$1
        ;;
    esac
    shift
done
[ -n "$directory" ] || misused "DIR is missing"
case $directory in
/*) ;;
*) directory=$PWD/$directory ;;
esac

command -v apt-cache >/dev/null 2>&1 || fail "apt-cache is not found: this needs a Debian machine, or one like it"
mkdir -p "$directory" 2>/dev/null || fail "cannot make the directory $directory"
# Inside DIR, so that the files can be moved there by a rename.
work=$(mktemp -d "$directory/.new.XXXXXX" 2>/dev/null) || fail "cannot write to $directory"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

cd "$work"
apt-cache dumpavail >available 2>errors ||
    fail "apt-cache dumpavail failed: $(head -n 1 errors)"
[ -s available ] || fail "apt-cache knows no packages: run 'apt-get update' as root first"

# A line a package: name, description, labels, words; the last two joined by the byte 1.
awk -v target="$target" '
    function words_of(text,    n, i, part) {
        # Words consist of letters, digits and bytes beyond ASCII.
        n = split(tolower(text), part, /[^a-z0-9\200-\377]+/)
        for (i = 1; i <= n; i++)
            if (part[i] != "")
                words = words "\001" part[i]
    }
    function add(label) {
        if (label != "" && !(label in seen)) {
            seen[label] = 1
            labels = labels "\001" label
        }
    }
    function depends(text,    n, i, part) {
        # "a (>= 1) | b:any, c": the names alone, alternatives included.
        n = split(text, part, /[,|]/)
        for (i = 1; i <= n; i++) {
            sub(/^[ \t]+/, "", part[i])
            sub(/[^-a-zA-Z0-9+.].*/, "", part[i])
            add(part[i])
        }
    }
    function finish(    n, i, part) {
        if (name == "" || (name in done))
            return
        done[name] = 1
        split("", seen)
        labels = words = ""
        if (target == "depends")
            depends(value["depends"])
        else
            add(value["maintainer"])
        if (labels == "")
            return
        words_of(name)
        words_of(value["description"])
        if (value["section"] != "")
            words = words "\001section::" value["section"]
        n = split(value["tag"], part, /[, \t]+/)
        for (i = 1; i <= n; i++)
            if (part[i] != "")
                words = words "\001" part[i]
        text = summary
        print name "\t" text "\t" substr(labels, 2) "\t" substr(words, 2)
    }
    {
        gsub(/[\t\001\r]/, " ")
    }
    /^$/ {
        finish()
        name = field = summary = ""
        split("", value)
        next
    }
    /^ / {
        value[field] = value[field] " " $0
        next
    }
    {
        colon = index($0, ":")
        field = tolower(substr($0, 1, colon - 1))
        text = substr($0, colon + 1)
        gsub(/^ +| +$/, "", text)
        # Some lists carry the long description under the language, "Description-en".
        if (field ~ /^description-[a-z]/ && field != "description-md5")
            field = "description"
        value[field] = text
        if (field == "package")
            name = text
        if (field == "description")
            summary = text
    }
    END {
        finish()
    }' available >unsorted
sort -t '	' -k 1,1 unsorted >rows
[ -s rows ] || fail "no package in apt-cache dumpavail has a $target"

cut -f 3 rows | tr '\001' '\n' | sort -u >labels.txt
# A word counts once for each package that has it.
awk -F '\t' -v min_count="$min_count" '
    {
        n = split($4, word, /\001/)
        for (i = 1; i <= n; i++)
            if (last[word[i]] != NR) {
                last[word[i]] = NR
                packages[word[i]]++
            }
    }
    END {
        for (w in packages)
            if (packages[w] >= min_count)
                print w
    }' rows | sort >vocabulary.txt
[ -s vocabulary.txt ] || fail "no word occurs in $min_count packages: choose a smaller --min-count"

# Rows of both files; the first line of each needs the numbers of rows and is added below.
awk -F '\t' -v train=train -v test=test -v labels=labels.txt \
    -v vocabulary=vocabulary.txt '
    function hash(text,    h, i) {
        # The products stay below 2^53, so that every awk computes them exactly.
        h = 0
        for (i = 1; i <= length(text); i++)
            h = ((h + code[substr(text, i, 1)]) * 16777619) % 100000007
        return h
    }
    BEGIN {
        for (i = 1; i < 256; i++)
            code[sprintf("%c", i)] = i
        n = 0
        while ((getline line <"labels.txt") > 0)
            label_number[line] = n++
        n = 0
        while ((getline line <"vocabulary.txt") > 0)
            word_number[line] = n++
    }
    {
        n = split($3, label, /\001/)
        for (i = 1; i <= n; i++)
            label[i] = label_number[label[i]]
        line = label[1]
        for (i = 2; i <= n; i++)
            line = line "," label[i]
        split("", count)
        features = 0
        n = split($4, word, /\001/)
        for (i = 1; i <= n; i++)
            if (word[i] in word_number) {
                number = word_number[word[i]]
                if (number in count) {
                    count[number]++
                    continue
                }
                # In rising order, by insertion sort: a row has a few dozen words.
                count[number] = 1
                for (j = features++; j > 0 && place[j] > number; j--)
                    place[j + 1] = place[j]
                place[j + 1] = number
            }
        for (i = 1; i <= features; i++)
            line = line " " place[i] ":" count[place[i]]
        part = hash($1) % 10 == 0 ? "test" : "train"
        print line >(part ".rows")
        print $1 "\t" $2 >(part "-packages.tsv")
    }' rows

label_count=$(($(wc -l <labels.txt)))
word_count=$(($(wc -l <vocabulary.txt)))
for part in train test; do
    [ -s "$part.rows" ] || fail "too few packages to split into train and test"
    rows=$(($(wc -l <"$part.rows")))
    {
        printf '%d %d %d\n' "$rows" "$word_count" "$label_count"
        cat "$part.rows"
    } >"$part.txt"
    eval "${part}_rows=\$rows"
done
for file in labels.txt vocabulary.txt train-packages.tsv test-packages.tsv train.txt test.txt; do
    mv -f "$file" "$directory/$file"
done
# shellcheck disable=SC2154
printf '%s: %d training and %d test packages, %d words, %d labels\n' "$directory" "$train_rows" "$test_rows" \
    "$word_count" "$label_count"
