#!/bin/sh
# Files as they are found: what the command reads, and what it says of a file that it does not read.
#
#   test_found.sh XSOFTMAX
# Words are split, and texts are not expanded, on purpose.
# shellcheck disable=SC2059,SC2086
# shellcheck source=tests/examples/checks.sh
. "$(dirname "$0")/checks.sh"
xsoftmax=$(path_of "$1")

# run CODE ARGUMENT...: standard input is the file `in`.
run() {
    wanted=$1
    shift
    code=0
    "$xsoftmax" "$@" >stdout 2>stderr <in || code=$?
    [ "$code" -eq "$wanted" ] || wrong "exit code $code, not $wanted: $*"
}

# reads EXPECTED ARGUMENT...: what convert makes of the rows.
reads() {
    expected=$1
    shift
    run 0 convert "$@" --to csv --output rows.csv
    [ "$(cat rows.csv)" = "$(printf "$expected")" ] || wrong "$* reads $(cat rows.csv)"
    rm -f rows.csv
}

: >in
# --- pipes
printf '1 1:1 2:1\n2 3:1\n' >rows.svm
mkfifo pipe
(cat rows.svm >pipe &)
prints 'LIBSVM text' info pipe
(cat rows.svm >pipe &)
run 0 train --data pipe --eta 1 --epochs 2 --model m
# --- what is not read
printf '\3757zXZ\0rest' >rows.xz
for command in 'info rows.xz' 'train --data rows.xz --eta 1' 'predict --model m --data rows.xz' \
    'train --data rows.xz --format csv --eta 1'; do
    fails 1 'rows.xz: compressed with xz, which is not read; this makes it readable: xz -dc rows.xz >rows.txt' $command
done
cp rows.xz in
fails 1 'standard input: compressed with xz, which is not read; this makes it readable: xz -dc FILE >rows.txt' train --data - --eta 1
printf '{"label": 1, "x": 2}\n' >in
fails 1 "read_json('FILE', lines=True)" train --data - --eta 1
fails 1 'm: ' train --data m --eta 1
# --- a format that is not recognised: what the nearest has against it
printf '1.5 2:3\n' >in
fails 1 'standard input, line 1, column 1: the format cannot be recognised; as LIBSVM, the nearest: expected an integer label' info -
# --- labels in a file of their own
printf '2 4\n0:1 3:2\n1:0.5\n' >x.txt
printf '2 9\n8:1\n3:1\n' >y.txt
reads 'f0,f1,f2,f3,label\n1,0,0,2,8\n0,5e-1,0,0,3' --data x.txt --labels-from y.txt
run 0 train --data x.txt --labels-from y.txt --test x.txt --test-labels-from y.txt --eta 1 --epochs 2 --model xc.model
fails 1 '(--labels-from FILE, and of the rows to test --test-labels-from FILE)' train --data x.txt --eta 1
printf '8\n' >y.txt
fails 1 'y.txt has labels for 1 rows, and x.txt has 2 rows; the numbers must agree' train --data x.txt --labels-from y.txt --eta 1
# --- what other programs write
printf '3 qid:1 1:1 2:1 1:0.5\n1 qid:2 2:1\n' >in
fails 1 'feature 1 for the second time in this row; each is accepted once (--duplicates sum adds them)' info -
reads 'f0,f1,label\n1.5,1,3\n0,1,1' --data - --duplicates sum
says stderr 'note: standard input: 2 rows have a query id (qid:), the first in line 1'
printf '__label__a, __label__b, caf\351\n' >in
fails 1 'line 1, column 28: byte 0xE9; UTF-8 text without NUL is accepted (--bad-bytes replace replaces others)' info -
run 0 info - --bad-bytes replace
says stderr "2 labels have a comma, a semicolon, a bar, a quote or a wide blank within, the first is '__label__a,' in line 1"
says stderr 'U+FFFD is in place of bytes that are no UTF-8, 1 times, first in line 1'
fails 2 '--bad-bytes is for csv, tsv and text, and --format is libsvm' train --data rows.svm --format libsvm --bad-bytes replace --eta 1

# --- tables
printf '5.1,3,setosa\n4,2,virginica\n' >in
fails 1 'if this line is a row: --header no, and a number as --label-column' train --data - --eta 1
reads 'f0,f1,label\n5.1,3,setosa\n4,2,virginica' --data - --label-column -1
says stderr 'line 1 is read as a row'
reads 'f0,f1,label\n5.1,3,setosa\n4,2,virginica' --data - --label-column 2 --header no
[ -s stderr ] && wrong 'a note where --header says it'
printf 'TRUE,5,False,x\nfalse,1,true ,y\n' >in
reads 'f0,f1,f2,label\n1,5,0,x\n0,1,1,y' --data - --label-column -1
printf '0,1,2,x\n7,8,9,y\n' >in
fails 1 "names of columns or a row? '0', '1', '2', 'x'; set --header yes or no" info - --label-column -1
printf 'id;a;when;tags\n7;1;"1;2";"3, 5"\n8;2;3;5\n' >in
run 0 convert --data - --label-column tags --ignore-columns id,when --label-separator , --to xc --output rows.xc
[ "$(cat rows.xc)" = "$(printf '2 1 6\n3,5 0:1\n5 0:2')" ] || wrong 'several labels in a field'
fails 1 "found ';2' in the column 'when'; a column of words is that of labels (--label-column), of text (--text-column)" info - --label-column tags
printf 'a,b,label\n1,2,x\n' >in
fails 1 '0 to 2 or -1 to -3' info - --label-column 10
fails 1 'by number they are 0 to 2, or -1 to -3 from the end' info - --weights-column 10
printf '0041;LATIN A;Lu;;N\n' >in
fails 1 "the columns, with semicolons between, are '0041', 'LATIN A', 'Lu'" train --data - --eta 1
says stderr 'if this line is a row: --header no, and a number as --label-column'
printf ',a,label\n0,5,x\n1,6,y\n' >in
run 0 info -
says stderr 'the first column, which has no name, is left out'
says stdout 'features               1'
(echo id,a,label && seq 60 | sed 's/.*/&,1,x/') >in
run 0 info -
says stderr "whole numbers that rise from row to row: 1, the first is 'id'; leave out what"
printf 'ham\tcall me, later\nspam\tfree, win\n' >sms.tsv
fails 1 'if this line is a row: --header no, and --label-column 0 --text-column 1 for a label and text' info sms.tsv
run 0 train --data sms.tsv --header no --label-column 0 --text-column 1 --eta 1 --epochs 5 --model sms.model
printf 'call later\n' >in
prints ham predict --model sms.model --data -
(printf 'ham\tcall me, later\n'; sleep 0.3; printf 'spam\tfree, win\n') |
    "$xsoftmax" predict --model sms.model --data - --header no --label-column 0 --text-column 1 >stdout 2>stderr
[ "$(cut -d: -f1 stdout | tr '\n' ' ')" = 'ham spam ' ] || wrong 'rows of text as they come'
printf '1,0.5,x\n0,1.5,y\n' >in
run 0 train --data - --label-column -1 --eta 1 --epochs 50 --model xy.model
(printf '1,0.5\n'; sleep 0.3; printf '0,1.5\n'; sleep 0.3; printf '1,0.4\n') |
    "$xsoftmax" predict --model xy.model --data - >stdout 2>stderr
[ "$(cut -d: -f1 stdout | tr '\n' ' ')" = 'x y x ' ] || wrong 'rows without a header line as they come'
run 0 evaluate --model sms.model --data sms.tsv --header no --label-column 0 --text-column 1
# --- rows that are no text, for a model of text
printf '2 2 2\n0 0:1 1:1\n1 1:1\n' >rows.xc
printf 'text,label\ncall later,ham\n' >rows.csv
for command in 'predict --model sms.model --data' 'evaluate --model sms.model --data' \
    'convert --like sms.model --to cache --output out --data' \
    'train --warm-start sms.model --estimator softmax --eta 1 --epochs 1 --data'; do
    fails 1 'rows.xc: XC text, and the model is that of text; if this is text, too: --format text' $command rows.xc
    fails 1 'rows.svm: rows of LIBSVM' $command rows.svm
    fails 1 '--format text; if one of its columns is: --text-column' $command rows.csv
    fails 1 'xz -dc rows.xz' $command rows.xz
done
cp rows.svm in
fails 1 'standard input: rows of LIBSVM' predict --model sms.model --data -
printf 'ratio 3:1, of salt\na, b, c\n' >in
run 0 predict --model sms.model --data -
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'an answer to each line of prose'
printf '3,Wall St.,"a, b"\n4,Oil,c\n' >in
printf '__label__3 a\n__label__4 b\n' >words.txt
run 0 train --data words.txt --eta 1 --epochs 1 --model words.model
for command in 'train --eta 1 --epochs 1' 'predict --model words.model'; do
    fails 1 'names of columns or a row?' $command --data - --label-column 0 --text-column 2
    says stderr 'set --header yes or no'
done
run 0 predict --model words.model --data - --label-column 0 --text-column 2 --header no
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'an answer to each row without a header line'
# --- a model of a table with a column of text knows the table
printf 'id,body,tags\n1,"call me, later",x|y\n2,"free, win",z\n' >mail.csv
run 0 train --data mail.csv --text-column body --label-column tags --label-separator '|' --ignore-columns id \
    --estimator softmax --eta 1 --epochs 30 --model mail.model
prints '"rows":2' evaluate --model mail.model --data mail.csv --json
run 0 convert --data mail.csv --like mail.model --to xc --output mail.txt --names-to names
says mail.txt '0,1 '
run 0 predict --model mail.model --data mail.csv
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'no answer to the header line'
prints '2 rows' train --data mail.csv --warm-start mail.model --estimator softmax --eta 1e-3 --epochs 1 --model warm.model
says stdout '3 classes'
printf 'body\ncall later\nfree, "win\n' | sed 's/, "/ /' >in
run 0 predict --model mail.model --data -
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'a table of nothing but texts'
(printf 'id,body,tags,on\n'; sleep 0.3; printf '1,call later,x,\n'; sleep 0.3; printf '2,win,,\n') |
    "$xsoftmax" predict --model mail.model --data - >stdout 2>stderr
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'rows of a known table as they come'
[ "$(grep -c 'left out' stderr)" -eq 1 ] || wrong 'a note for each piece of a pipe'
printf 'free, win, and more\nid, later\n' >in
run 0 predict --model mail.model --data -
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'text for a model of a table'
fails 1 'rows of LIBSVM' predict --model mail.model --data rows.svm
# the same where columns and the labels of a field have one separator, labels being in quotes
for between in ',' ';' '|'; do
    for header in 'tags,title' ''; do
        column='--label-column tags --text-column title'
        [ "$header" ] || column='--label-column 0 --text-column 1 --header no'
        rows='"fin,mon",bank shares\nsoc,"school; a | child, too"\n"fin,soc",tax school\n'
        printf "${header:+$header\n}$rows$rows" | sed "s/fin,/fin$between/; s/\(\"*\),\([\"bst]\)/\1$between\2/" >both.csv
        run 0 train --data both.csv $column --label-separator "$between" --estimator one-vs-all --eta 1 --epochs 60 \
            --model both.model
        says stdout '6 rows'
        says stdout '3 classes'
        prints '"rows":6' evaluate --model both.model --data both.csv --json
        says stdout '"error":0,'
        run 0 convert --data both.csv --like both.model --to xc --output both.txt --names-to names
        [ "$(cut -d' ' -f1 both.txt | tail -n 6 | tr '\n' ' ')" = '0,1 2 0,2 0,1 2 0,2 ' ] || wrong "$between: labels"
        run 0 predict --model both.model --data both.csv
        [ "$(wc -l <stdout)" -eq 6 ] || wrong "$between, $header: an answer to each row"
        cp both.csv in
        run 0 predict --model both.model --data -
        [ "$(wc -l <stdout)" -eq 6 ] || wrong "$between, $header: an answer to each row of a pipe"
    done
done
# the same without a header line: a label that the model has shows a row, tabs do
printf '3,Wall St.,"a, b"\n4,Oil,c d\n' >news.csv
run 0 train --data news.csv --header no --label-column 0 --text-column 2 --eta 1 --epochs 20 --model news.model
prints 'error      0.00 %' evaluate --model news.model --data news.csv
run 0 train --warm-start news.model --data news.csv --test news.csv --estimator softmax --eta 1 --model newer.model
prints 'error      0.00 %' evaluate --model newer.model --data news.csv
printf '5,Oil,c d\n' >in
fails 1 'a row of a table like that of the model, or text? set --format csv or text' predict --model news.model --data -
run 0 predict --model news.model --data - --format text
run 0 predict --model news.model --data - --format csv
printf 'c, d\n' >in
run 0 predict --model news.model --data -
prints 'error      0.00 %' evaluate --model sms.model --data sms.tsv
# a table of other columns is no text; lines with a comma each, or that speak of labels and text, are
printf 'label,text\nfin,bank shares\nsoc,school child\n' >train.csv
run 0 train --data train.csv --text-column text --estimator softmax --eta 1 --epochs 3 --model text.model
rows='fin,bank shares\nsoc,"school, child"\n'
for table in "# export\nlabel,text\n$rows" "sep=,\nlabel,text\n$rows" "Export of today\n\nlabel,text\n$rows" "Label,Text\n$rows" \
    "title,body\n$rows" "id,title,body\n1,a,b c\n2,c,d\n" 'id;title\n1;a\n2;b c\n' 'id\ttitle\n1\ta\n2\tb c\n' 'Text\nbank\nschool\n' \
    "$rows$rows" 'Label,TEXT\n' 'title,body\nfin,"bank\nshares"\n' '# export\ntitle|body\na|b c\nc|d\n' 'a,id,Text\nb,1,c d\n' \
    'id, title, body\n1, a, b c\n2, c, d\n3, e, f g\n' '"the title","the body"\n"a","b, c"\n"c","d"\n'; do
    printf "$table" >other.csv
    cp other.csv in
    for command in 'predict --model text.model --data other.csv' 'predict --model text.model --data -' \
        'convert --like text.model --to xc --output rows.xc --data other.csv'; do
        fails 1 'if this is text: --format text; if one of its columns is: --text-column' $command
    done
    run 0 predict --model text.model --data other.csv --format text
done
for text in 'Hello, you\nGood morning, child\nSchool, then\nShares, too\n' 'bank,shares\n' 'Text, please\n' 'a text\nand, a label\n' \
    'one\ntwo, text\nthree\n' '# a tag, and\nanother, one\nand, on\n' 'a,b\nc\nd,e\n' 'no; yes\nyes; no\n' 'text of a title\nbank\n' \
    '"Well", he said\n"No", she said\n"Yes", he said\n' '1,000 died\nof 5,000\n'; do
    printf "$text" >in
    run 0 predict --model text.model --data -
    [ "$(wc -l <stdout)" -eq "$(wc -l <in)" ] || wrong "an answer to each line of $text"
done
# --- a header line in the middle, as cat makes it
for table in 'label,text\na,x y\nlabel,text\nb,z\n' 'label,text\na,"x\ny"\n"label", "text"\r\nb,z\n' 'text,label\nx,a\nlabel,text\nb,z\n' \
    'label;text;id\na;x;1\nlabel;text;id\nb;z;2\n' 'label\ttext\na\tx\nlabel\ttext\nb\tz\n' 'label,0,text\na,1,x\nlabel,0,text\n'; do
    printf "$table" >in
    fails 1 ', column 1: the names of columns again, as where files follow one another; a row is accepted: leave this line out' info - --text-column text
done
printf 'label,text,note\ntext,1,2\nnote,3,4\n' >head.csv
printf 'label,0,1\na,5,2\nlabel,0,1\n' >in
fails 1 'line 3, column 1: the names of columns again' info -
reads 'text,note,label\n1,2,text\n3,4,note' --data head.csv
printf 'text\ntext\nlabel\n' >in
run 0 predict --model text.model --data -
[ "$(wc -l <stdout)" -eq 2 ] || wrong 'a text of one word, the column'"'"'s name'
# --- names of columns
printf 'label,caf\351,b\nx,1,2\n' >in
fails 1 'line 1, column 10: byte 0xE9 in the name of a column' info -
reads 'caf\357\277\275,b,label\n1,2,x' --data - --bad-bytes replace
printf 'label,"a\nb",c\nx,1,2\n' >in
fails 1 'and TSV has a row in each line; csv can hold it' convert --data - --to tsv --output rows.tsv
reads '"a\nb",c,label\n1,2,x' --data -
printf 'label,,c\nx,1,2\n' >in
fails 1 'would be read as numbers of rows' convert --data - --to csv --output rows.csv
printf 'label,Unnamed: 0,c\nx,1,2\n' >in
reads 'c,label\n2,x' --data -
printf 'label,a,,c\nx,1,3,2\n' >in
reads 'a,,c,label\n1,3,2,x' --data -
printf 'label,a,b,a\nx,1,2,3\ny,4,5,6\n' >in
run 0 train --data - --estimator softmax --eta 1 --epochs 2 --model equal.model
says stderr "columns with a name that another has: 1, the first is 'a'"
printf '0,1,2\n5,4,x\n' >in
run 0 info - --label-column 2
says stderr 'names of columns, not as a row, for its fields count up'
printf 'a,0\nb,1\n' >in
run 0 info - --label-column 0
says stderr 'a row, not as names of columns, for its features are numbers'
# --- a model of a table of numbers knows it: each command does the same without the flags as with them
# table FLAGS: the rows 'id label weight a b' of `rows`, with blanks between, are table.csv; bare is it without labels, and
# features nothing else.
same() {
    run 0 "$@" $flags
    sed 's/"[a-z_]*\(seconds\|peak_bytes\)":[^,]*,//g' stdout >with
    run 0 "$@"
    sed 's/"[a-z_]*\(seconds\|peak_bytes\)":[^,]*,//g' stdout | cmp -s with - || wrong "another answer without the flags $flags: $*"
}
knows() {
    flags=$1
    run 0 train --data table.csv $flags --estimator softmax --eta 0.1 --epochs 30 --model table.model
    for data in table.csv -; do
        cp table.csv in
        same evaluate --model table.model --data $data --json --no-f1
        same predict --model table.model --data $data
        same predict --model table.model --data $data --exclude known
    done
    for other in bare.csv features.csv; do
        run 0 predict --model table.model --data table.csv
        cp stdout wanted
        run 0 predict --model table.model --data $other
        cmp -s wanted stdout || wrong "$flags: other answers without the labels of $other"
    done
    for to in '' given; do
        to=${to:+$flags}
        run 0 convert --data table.csv --like table.model $to --to npy --output x.npy --labels-to y.npy --names-to names \
            --weights-to weights
        cat x.npy y.npy names weights >"converted${to:+.flags}"
        run 0 calibrate --model table.model --data table.csv $to --output "calibrated${to:+.flags}"
        run 0 train --data table.csv --warm-start table.model --test table.csv $to --estimator softmax --eta 0.1 --epochs 3 \
            --model "warm${to:+.flags}"
        says stdout 'with 0 new classes'
    done
    for made in converted calibrated warm; do
        cmp -s $made $made.flags || wrong "$flags: another $made without the flags"
    done
    prints 'with 0 new classes' train --data table.csv --warm-start warm --estimator softmax --eta 0.1 --epochs 3 --model warmer
    grep -q 'new features' stdout && wrong "$flags: new features of a model that was trained on"
}
printf '%s\n' 'id label weight a b' '17 x 1 5 0.5' '18 y 2 0.5 5' '19 x 1 4 1' '20 y 0 1 4' '21 y 1 3.5 1.5' '22 x 1 1 3' >rows
# make SEPARATOR FIRST-ROW COLUMN...: the three tables, of these columns in this order
make() {
    separator=$1 first=$2
    shift 2
    for made in table bare features; do
        columns=
        for column; do
            case $made,$column in bare,2 | features,[123]) ;; *) columns="$columns,\$$column" ;; esac
        done
        awk -v OFS="$separator" "NR >= $first { print ${columns#,} }" rows >$made.csv
    done
}
make ';' 1 1 2 3 4 5
knows '--ignore-columns id --weights-column weight --separator ;'
make '	' 1 4 3 1 5 2
sed -i 's/label/kind/' table.csv
knows '--ignore-columns id --weights-column weight --label-column kind'
make ' ' 2 1 2 3 4 5
knows '--ignore-columns 0 --weights-column 2 --label-column 1 --header no --separator space'
make ':' 2 4 3 5 2 1
knows '--ignore-columns -1 --weights-column 1 --label-column -2 --header no --separator :'
# what the user names again counts, and columns that were never features stay none
sed 's/ /,/g' rows >table.csv
run 0 train --data table.csv --ignore-columns id,weight --estimator softmax --eta 0.1 --model table.model
prints 'with 0 new classes and 1 new features' train --data table.csv --warm-start table.model --ignore-columns weight --estimator softmax --eta 0.1 --model other.model
run 0 train --data table.csv --weights-column weight --ignore-columns id --estimator softmax --eta 0.1 --model table.model
cut -d, -f1,2,4,5 table.csv >light.csv
run 0 evaluate --model table.model --data light.csv
says stderr "light.csv: no column 'weight' of weights, as the rows of the model had; each row has the weight 1 (--weights-column)"
# a column with a number is the same one only in as many columns, and a feature is none
printf 'a,b,kind\n5,0.5,1\n0.5,5,2\n' >last.csv
run 0 train --data last.csv --label-column -1 --estimator softmax --eta 0.1 --epochs 3 --model last.model
run 0 evaluate --model last.model --data last.csv
for moved in 'kind,a,b\n1,5,0.5\n2,0.5,5\n' 'kind,a,b,more\n1,5,0.5,1\n2,0.5,5,2\n' 'a,b\n5,0.5\n0.5,5\n'; do
    printf "$moved" >moved.csv
    for command in 'evaluate --model last.model' 'train --warm-start last.model --estimator softmax --eta 0.1 --model other'; do
        fails 1 'no row has a label; the column of labels is --label-column' $command --data moved.csv
    done
    run 0 predict --model last.model --data moved.csv
done
sed '1s/^/,/;2,$s/^/7,/' last.csv >rownames.csv
run 0 train --data rownames.csv --label-column -1 --estimator softmax --eta 0.1 --epochs 3 --model rownames.model
run 0 evaluate --model rownames.model --data rownames.csv
run 0 evaluate --model rownames.model --data last.csv
# a file of weights, or the user, takes the place of the column, which becomes no feature
printf '1\n2\n1\n0\n1\n1\n' >weights
for given in '--weights weights' '--ignore-columns id,weight' '--label-column id --ignore-columns label'; do
    prints '2 features' train --data table.csv --warm-start table.model $given --estimator softmax --eta 0.1 --model other.model
    grep -q 'new features' stdout && wrong "$given: a column of weights becomes a feature"
done
# columns without names are known by their places
printf '5,0.5,x\n0.5,5,y\n' >rows.csv
run 0 train --data rows.csv --label-column -1 --estimator softmax --eta 0.1 --epochs 3 --model places.model
for more in 's/^/7,/' 's/,[xy]/,7&/' 's/^[^,]*,//' '1s/.*/a,b,c,label\n1,&/;2s/^/1,/'; do
    sed "$more" rows.csv >more.csv
    label='--label-column -1'
    for command in 'evaluate --model places.model' 'train --warm-start places.model --estimator softmax --eta 0.1 --model other'; do
        fails 1 'the model has 2 features, the file' $command --data more.csv $label
        says stderr 'columns without names are known by their places'
    done
done
python3 - <<'EOF' 2>/dev/null || echo 'no NumPy' >no.numpy
import numpy
numpy.save('joined.npy', numpy.array([[5, 0.5, 0], [0.5, 5, 1], [4, 1, 0]]))
numpy.save('alone.npy', numpy.array([[5, 0.5], [0.5, 5], [4, 1]]))
numpy.save('wide.npy', numpy.array([[7, 5, 0.5, 0], [7, 0.5, 5, 1]]))
EOF
if [ ! -e no.numpy ]; then
    run 0 train --data joined.npy --label-column -1 --estimator softmax --eta 0.1 --epochs 3 --model joined.model
    run 0 predict --model joined.model --data alone.npy
    cp stdout wanted
    run 0 predict --model joined.model --data joined.npy
    cmp -s wanted stdout || wrong 'the column of labels of a matrix is a feature'
    prints 'with 0 new classes' train --data joined.npy --warm-start joined.model --estimator softmax --eta 0.1 --epochs 3 --model other
    grep -q 'new features' stdout && wrong 'the column of labels of a matrix is a new feature'
    fails 1 '3 columns of features; 2 are expected (those of the model)' train --data wide.npy --warm-start joined.model --estimator softmax --eta 0.1 --model other
fi
# --- the command that ARFF is answered with
printf '%% a comment\n@RELATION r\n @attribute x numeric\n@attribute c {a,b}\n@DATA\n1,a\n\n%% another\n2,b\n' >r.arff
fails 1 'r.arff: ARFF, which is not read; this makes it readable: sed' info r.arff
says stderr '--header no and --label-column -1'
eval "$(sed 's/.*readable: //; s/ (a table.*//' stderr)" && mv rows.csv r.csv
reads 'f0,label\n1,a\n2,b' --data r.csv --header no --label-column -1
printf '7  5 1\n 4 2 3\n' >in
reads 'f0,f1,label\n7,5,1\n4,2,3' --data - --separator space --header no --label-column -1
fails 2 '--header is for csv and tsv, and --format is text' train --data sms.tsv --format text --header no --eta 1

# --- a class is what it is called, in every format
for _ in 1 2 3 4 5; do printf '1,1,0,0\n2,0,1,0\n3,0,0,1\n'; done | sed '1i label,a,b,c' >n.csv
(cat n.csv; printf 'other,1,1,1\n') >o.csv
sed 's/^1,/w,/; s/^2,/x,/; s/^3,/y,/' n.csv >w.csv
sed 's/^1,/x,/; s/^2,/y,/; s/^3,/z,/' n.csv >x.csv
sed 's/^1,/01,/' n.csv >z.csv
printf -- '-\nParis\nRome\nParis\nOslo\n' >towns
how='--estimator softmax --eta 0.3 --epochs 20'
still='--estimator softmax --eta 1e-6 --epochs 1'
for rows in n o w; do
    run 0 train --data $rows.csv $how --model $rows.m
    run 0 convert --data $rows.csv --to cache --output $rows.cache
done
run 0 convert --data o.csv --like n.m --to cache --output like.cache
for case in 'n.m n.cache 0.00' 'n.m o.csv 6.25' 'n.m o.cache 6.25' 'n.m like.cache 6.25' 'o.m n.csv 0.00' \
    'o.m n.cache 0.00' 'w.m n.cache 100.00' 'w.m n.csv 100.00' 'n.m w.cache 100.00' 'n.m w.csv 100.00'; do
    set -- $case
    prints "error      $3 %" evaluate --model $1 --data $2
    [ "$3" != 100.00 ] || says stderr 'no label of the rows is one that the model has'
done
for case in 'o.csv n.m n.csv 1' 'n.cache o.m n.csv 0' 'z.csv n.m n.csv 1' 'w.csv n.m n.csv 3' 'n.cache w.m w.csv 3'; do
    set -- $case
    prints "with $4 new classes" train --data $1 --warm-start $2 $still --model grown.m
    prints 'error      0.00 %' evaluate --model grown.m --data $3
done
run 0 train --data n.csv --label-names towns $how --model towns.m
(cat n.csv; printf '4,1,1,1\n') >four.csv
run 0 train --data four.csv --warm-start towns.m $still --model grown.m
prints 'error      0.00 %' evaluate --model grown.m --data n.csv
fails 1 "are words, the first 'w', and those of the model numbers with names" train --data w.csv --warm-start towns.m $still --model grown.m
run 0 train --data w.csv $how --checkpoint ck
fails 1 'not those that the checkpoint was made with' train --data x.csv --estimator softmax --eta 0.3 --epochs 30 --resume ck

# --- LIBSVM that counts from 1, or may, for a model of numbers from 0
printf '4 2 2\n0 0:2\n1 1:2\n0 0:1\n1 1:1\n' >zero.xc
printf '0 1:2\n1 2:2\n0 1:1\n1 2:1\n' >one.svm
printf '1 1:2\n' >some.svm
one='--estimator softmax --eta 1 --epochs'
run 0 train --data zero.xc $one 20 --model zero.model
for command in 'predict --model zero.model --data' 'evaluate --model zero.model --data' \
    "train --data zero.xc $one 1 --model out.model --test" "train --warm-start zero.model $one 1 --model out.model --data" \
    'convert --like zero.model --to cache --output out --data'; do
    fails 1 'one.svm: features are numbered from 1 to 2, and those of the model from 0 to 1, as if these rows counted' $command one.svm
    says stderr 'set --index-base to 1 if they do, else to 0'
    run 0 $command one.svm --index-base 1
    [ -s stderr ] && wrong 'a note where --index-base says it'
    run 0 $command some.svm
    says stderr 'note: some.svm: the least feature number is 1, and is taken to count from 0, as those of the model'
    run 0 $command some.svm --index-base 0
    [ -s stderr ] && wrong 'a note where --index-base says it'
done
(echo '# Column indices are one-based'; cat some.svm) >said.svm
fails 1 'line 1, column 1: the comment says that features count from 1, and those of the model count from 0' predict --model zero.model --data said.svm
run 0 predict --model zero.model --data zero.xc
mv stdout right
run 0 predict --model zero.model --data one.svm --index-base 1
cmp -s right stdout || wrong 'rows that count from 1 are other rows'
run 0 convert --data one.svm --index-base 1 --like zero.model --to libsvm --output one.out
[ "$(head -n 1 one.out)" = '0 0:2' ] || wrong 'rows like a model are numbered like it'
# --- features of very different sizes, of which a full-batch fit reaches those of the larger size alone
awk 'BEGIN { print "label,a,b"; for (i = 0; i < 40; i++) printf "%d,%g,%g\n", i % 2, 1e6 * (i * 7 % 11 - 5), 1e-3 * (i % 2) }' >size.csv
prints 'far from the minimum, as the gradient shows: features differ much in size; try --transform standard' train --data size.csv --estimator softmax --optimizer lbfgs --model size.model
prints 'error 0.00 %' train --data size.csv --estimator softmax --optimizer lbfgs --transform standard --model size.model
grep -q 'far from' stdout && wrong 'a fit to the end is called far from it'
# --- a table with one column
printf 'x,label\n1,u\n-2,v\n3,u\n-1,v\n' >c.csv
run 0 train --data c.csv --eta 1 --estimator softmax --epochs 20 --model c.model
for rows in '5\n6.5\n-3\n' 'x\n5\n6.5\n-3\n'; do
    printf "$rows" >in
    cp in c.txt
    for data in - c.txt; do
        run 0 predict --model c.model --data $data
        [ "$(cut -d: -f1 stdout | tr '\n' ' ')" = 'u u v ' ] || wrong 'a table with one column'
    done
done
# --- what stands for no label elsewhere, blanks, and two separators
printf 'x,label\n1,u\n2,NA\n3, u\n4,\n5,?\n' >in
run 0 train --data - --eta 1 --estimator softmax --epochs 1 --model na.model
says stderr "2 labels are NA, '-' or the like, first in line 3, and make classes like other words"
says stdout '3 classes'
printf '1.234,5;2\n2.234,5;3\n' >in
fails 1 "2 columns with commas between, the first '1.234', or 2 with semicolons, the first '1.234,5'? set --separator" info - --label-column -1
printf '%s\n' '-,-,a' 1,2,b >in
run 0 info - --label-column -1
says stderr 'line 1 is read as names of columns, not as a row, for its fields are words (--header yes or no)'
# --- files of the library in the place of others
run 0 convert --data zero.xc --to cache --output z.cache
run 0 index --model zero.model --output z.index
run 0 train --data zero.xc --method label-tree --checkpoint z.checkpoint --model z.tree
for case in 'predict --data zero.xc --model|z.cache|a cache of rows, and a model is wanted' \
    'predict --data zero.xc --model|z.index|an index, and a model is wanted' \
    'predict --model zero.model --data|zero.model|a model, and rows are wanted' \
    'evaluate --model zero.model --data|z.tree|a model, and rows are wanted' \
    'train --eta 1 --data|z.index|an index, and rows are wanted' \
    'train --eta 1 --data|z.checkpoint|a checkpoint of label trees, and rows are wanted' \
    'train --data zero.xc --estimator softmax --eta 1 --resume|zero.model|not a checkpoint but a model' \
    'train --data zero.xc --method label-tree --resume|z.cache|not a checkpoint but a cache of rows'; do
    file=${case#*|}
    run 1 ${case%%|*} ${file%%|*}
    says stderr "${file%%|*}: ${file#*|}"
done
fails 1 "z.cache: no index's file but a cache of rows" predict --model zero.model --data zero.xc --index-file z.cache
# --- words are words in tables, too
printf 'text,label\ncall later,a\nwin,b\n' >calls.csv
printf 'text,label\nfree new win,a\nfree,b\n' >new.csv
prints 'left out 3 times: words that the model lacks' train --data calls.csv --text-column text --eta 1 --estimator softmax --epochs 1 --model t.model --test new.csv
prints 'left out 3 times: words that the model lacks' evaluate --model t.model --data new.csv
# --- a quote at the start of a text between tabs is a part of it: as many answers as lines, of pipes and files
printf 'ham\t"see you later\nspam\twin now" \nham\tat home\n' >sms.tsv
prints '3 rows' train --data sms.tsv --header no --label-column 0 --text-column 1 --eta 1 --epochs 1 --estimator softmax --model sms.model
run 0 predict --model sms.model --data sms.tsv
[ "$(wc -l <stdout)" -eq 3 ] || wrong 'not three answers of a file'
(cat sms.tsv >pipe &)
"$xsoftmax" predict --model sms.model --data - <pipe >stdout 2>stderr || wrong 'rows of a pipe'
[ "$(wc -l <stdout)" -eq 3 ] || wrong 'not three answers of a pipe'
# --- labels of floats meet a model's numbers, among words, too
printf 'x,label\n1,1.0\n2,2.0\n' >float.csv
printf 'x,label\n1,1.0\n2,2.0\n3,n/a\n' >words.csv
run 0 train --data float.csv --estimator softmax --eta 1 --epochs 1 --model float.model
run 0 train --data words.csv --warm-start float.model --estimator softmax --eta 1 --epochs 1 --model words.model
prints 'classes                3' info words.model
# --- the base of a pipe does not depend on how fast it comes
for pause in 0 1; do
    ({ head -n 1 one.svm; sleep $pause; tail -n +2 one.svm; } >pipe &)
    "$xsoftmax" predict --model zero.model --data - <pipe >"out$pause" 2>stderr && wrong 'a pipe that counts from 1'
    says stderr 'standard input, line 2: a feature 2, and those of the model are 0 to 1, as if these rows counted from 1'
done
[ "$(wc -l <out0)" -eq 1 ] || wrong 'not one answer before the row that counts from 1'
cmp -s out0 out1 || wrong 'answers to a pipe that depend on its speed'
(cat one.svm >pipe &)
"$xsoftmax" predict --model zero.model --data - --index-base 1 <pipe >stdout 2>stderr || wrong 'a pipe with a base'
cmp -s right stdout || wrong 'a pipe that counts from 1 has other rows'
# --- sparse rows of another width
printf '1 1 2\n0 0:2\n' >narrow.xc
run 0 predict --model zero.model --data narrow.xc
says stderr 'note: narrow.xc: the first line declares 1 features, and the model has 2; the first 1 are taken for the same'
# --- words are the columns of a table, and other formats do not say them
printf '__label__a red green label\n__label__b green, "blue"\n' >first.txt
printf '__label__a "blue" green,\n__label__b red red green label\n' >second.txt
run 0 convert --data first.txt --to csv --to-label-column class --output first.csv
[ "$(head -n 1 first.csv)" = '"""blue""",green,"green,",label,red,class' ] || wrong "words as columns: $(head -n 1 first.csv)"
fails 1 "is 'label', which is how columns of features are called" convert --data first.txt --to csv --output other.csv
run 0 convert --data second.txt --to csv --to-label-column class --output second.csv
run 0 train --data first.csv --label-column class --eta 1 --epochs 20 --estimator softmax --model words.model
run 0 predict --model words.model --data second.csv --label-column class
[ "$(cut -d: -f1 stdout | tr '\n' ' ')" = 'b a ' ] || wrong 'words of files that were converted apart'
run 0 convert --data second.txt --word-ngrams 2 --buckets 2 --to tsv --to-label-column class --output second.tsv
[ "$(head -n 1 second.tsv | tr '\t' '|')" = 'red|"""blue"""|green|green,|label|bucket 0 of 2|bucket 1 of 2|class' ] || wrong 'buckets as columns'
run 0 convert --data first.txt --to xc --names-to names --output first.xc
says stderr 'note: xc does not say which word a feature is; other files get the same features by --like'
# --- two classes of one name
for _ in 1 2 3; do printf '0 1:5\n1 2:5\n2 3:5\n'; done >twins.svm
printf 'x\nx\ny\n' >twins
printf 'id,name\n0,x\n1,y\n2,z\n' >numbered
run 0 convert --data twins.svm --label-names numbered --to cache --output numbered.cache
says stderr "note: numbered: lines begin with numbers: line 2, '0,x', is the whole name of the label 1; a line names"
printf '3d\n2 of 4\n7 of 9\n' >numbered
run 0 convert --data twins.svm --label-names numbered --to cache --output numbered.cache
[ -s stderr ] && wrong 'a note of names that begin with numbers'
echo x >x.list
run 0 train --data twins.svm --label-names twins --estimator softmax --eta 1 --epochs 5 --model twins.model
says stderr "note: twins: 1 classes have the name of another one; the first are the labels 0 and 1, both 'x'"
run 0 predict --model twins.model --data twins.svm --deny x.list
[ "$(cut -d: -f1 stdout | sort -u)" = y ] || wrong 'a class of a name that is denied'
run 0 predict --model twins.model --data twins.svm --allow x.list --top 3
[ "$(tr '\t' '\n' <stdout | cut -d: -f1 | sort | uniq -c | tr -s ' ')" = ' 18 x' ] || wrong 'not both classes of a name'
: >none.list
run 0 predict --model twins.model --data twins.svm --deny none.list --top 3
says stderr 'note: none.list: there is no label in it, so nothing is denied'
[ "$(tr '\t' '\n' <stdout | wc -l)" -eq 27 ] || wrong 'a class is missing'
run 0 predict --model twins.model --data twins.svm --deny none.list --allow x.list
[ "$(cut -d: -f1 stdout | sort -u)" = x ] || wrong '--allow beside an empty --deny'
fails 1 'none.list: there is no label in it' predict --model twins.model --data twins.svm --allow none.list
for to in csv tsv; do
    fails 1 "the classes 0 and 1 (from 0) are both called 'x', and would be one in this format" convert --data twins.svm --label-names twins --to $to --output twins.out
    says stderr 'with --names-to, or a cache'
done
run 0 convert --data twins.svm --label-names twins --to xc --names-to names --output twins.out
[ "$(cut -d' ' -f1 twins.out | tail -n +2 | sort -u | tr '\n' ' ')" = '0 1 2 ' ] || wrong 'classes of one name are one'
# --- classes with names have other numbers in files that are converted apart
printf '__label__z x\n__label__b y\n__label__m x\n' >first.txt
printf '__label__b y\n__label__z x\n' >second.txt
for to in xc libsvm 'npy --labels-to y.npy'; do
    run 0 convert --data first.txt --to $to --names-to names --output first.out
    says stderr "note: ${to%% *} numbers the classes, whose names go to --names-to, as they are in this file"
done
run 0 convert --data twins.svm --label-names twins --to libsvm --names-to names --output twins.out
says stderr 'note: libsvm numbers the classes'
run 0 convert --data first.txt --to cache --output first.cache
run 0 convert --data second.txt --like first.cache --to xc --names-to names --output second.out
grep -q 'numbers the classes' stderr && wrong 'a note of numbers that are those of --like'
[ "$(sed 1d second.out | cut -d' ' -f1 | tr '\n' ' ')" = '0 2 ' ] || wrong 'numbers of --like' # of b, m, z
for to in csv cache; do
    run 0 convert --data first.txt --to $to --output first.out
    grep -q 'numbers the classes' stderr && wrong "a note of numbers in $to"
done
run 0 convert --data rows.svm --to xc --output rows.out
grep -q 'numbers the classes' stderr && wrong 'a note of numbers that stay'
# --- rows of XC text whose labels are elsewhere, as they come
printf '2 2\n0:2\n1:2\n' >bare.xc
run 0 predict --model zero.model --data bare.xc
mv stdout right
[ "$(cut -d: -f1 right | tr '\n' ' ')" = '0 1 ' ] || wrong 'rows of XC text without labels'
({ printf '2 2\n0:2\n'; sleep 0.3; printf '1:2\n'; } >pipe &)
"$xsoftmax" predict --model zero.model --data - <pipe >stdout 2>stderr || wrong 'a pipe of XC text without labels'
cmp -s right stdout || wrong 'answers to a pipe of XC text without labels'
({ printf '2 2\n0:2\n'; } >pipe &)
"$xsoftmax" predict --model zero.model --data - <pipe >stdout 2>stderr && wrong 'a pipe of XC text cut short'
says stderr '1 rows, and its first line says 2'

report
