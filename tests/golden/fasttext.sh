#!/bin/sh
# Models of Debian's fastText 0.9.2 and what it answers: sh fasttext.sh FOLDER makes the files of fasttext/ anew, which
# lib/model/fasttext.c is tested with. The answers of each model are those to text.txt, or to words.txt.
set -eu
cd "$1"
export LC_ALL=C
# Lines of words, some of several bytes, whose labels are among their first letters' numbers.
awk 'BEGIN {
    n = split("größe naïve Москва 日本 the of salt pepper oven oil água café a I bread knife pan-fry 1/2 x² über", w, " ")
    s = 7
    for (i = 0; i < 60; i++) {
        m = 2 + i % 5
        first = 0
        line = ""
        for (j = 0; j < m; j++) {
            s = (s * 1103515245 + 12345) % 2147483648
            k = int(s / 65536) % n
            first = first ? first : k + 1
            line = line " " w[k + 1]
        }
        label = "__label__" substr("onetwosixtenäöüelf", 1 + (first % 4) * 3, 3)
        print label (i % 7 == 0 ? " __label__même" : "") line
    }
}' >train.txt
{
    head -n 12 train.txt
    printf '%s\n' '' 'salt' 'unknown größe unknown' '__label__never seen  oven	the' 'ungekannt МоскваX 日本語 the the the' '< > a'
} >text.txt
printf '%s\n' salt größe Moskau МоскваX 日本 a qqq >words.txt
common="-input train.txt -minCount 1 -dim 3 -lr 1 -epoch 30 -thread 1 -seed 5 -verbose 0"
# shellcheck disable=SC2086
{
    fasttext supervised $common -output softmax -loss softmax -wordNgrams 2 -bucket 20
    fasttext supervised $common -output ova -loss ova -wordNgrams 1 -minn 2 -maxn 3 -bucket 30
    fasttext supervised $common -output hs -loss hs -wordNgrams 3 -minn 1 -maxn 4 -bucket 50
    fasttext supervised $common -output ns -loss ns -bucket 10
    fasttext skipgram $common -output skipgram -minn 2 -maxn 4 -bucket 40
    fasttext cbow $common -output cbow -loss hs -minn 0 -maxn 0
    fasttext supervised $common -output pruned -loss softmax -wordNgrams 2 -minn 2 -maxn 5 -bucket 500
    fasttext quantize -input train.txt -output pruned -qnorm -cutoff 260 -dsub 2 -thread 1 -verbose 0
}
rm -f pruned.bin ./*.vec
for model in softmax ova hs ns pruned; do
    file=$model.bin
    [ -e "$file" ] || file=$model.ftz
    fasttext predict-prob "$file" text.txt -1 >"$model.txt"
done
for model in skipgram cbow; do
    fasttext print-word-vectors "$model.bin" <words.txt >"$model.txt"
done
rm -f train.txt
