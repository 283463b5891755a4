#!/bin/sh
# The example word_vectors on a small made-up text: test_word_vectors.sh PROGRAM
set -eu
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'test_word_vectors.sh: %s\n' "$*" >&2
    exit 1
}

# Four topics of ten words, a topic a line.
awk 'BEGIN {
    s = 7
    for (i = 0; i < 1500; i++) {
        s = (s * 16807) % 2147483647
        topic = substr("abcd", s % 4 + 1, 1)
        line = ""
        for (j = 0; j < 8; j++) {
            s = (s * 16807) % 2147483647
            line = line topic int(s / 64) % 10 " "
        }
        print line
    }
}' >"$folder/text"

train() {
    "$program" train "$folder/text" "$@" --dimension 16 --subsample 1 --epochs 4 2>"$folder/progress" ||
        fail "train $*: $(cat "$folder/progress")"
}
train "$folder/v.vec" --also "$folder/v.safetensors" --output "$folder/out.safetensors" --history "$folder/h.csv" --threads 2
train "$folder/again.vec" --threads 1
cmp "$folder/v.vec" "$folder/again.vec" || fail "two runs differ"
! grep -q "words/s" "$folder/progress" || fail "progress in a file"
train "$folder/e.vec" --estimator nce --set negatives=5 --set sampler=frequency
train "$folder/h.vec" --estimator hierarchical --spread 0.1
train "$folder/f.vec" --fit 2
grep -q "step 4 of 4" "$folder/progress" || fail "two iterations of full gradients have other than four steps"
train "$folder/m.vec" --fit 2 --fit-estimator decomp-mips --fit-set candidates=30 --fit-set blocks=2
grep -q "step 4 of 4" "$folder/progress" || fail "two iterations of searched gradients have other than four steps"
[ "$(wc -l <"$folder/h.csv")" -eq 5 ] || fail "the history has other than four epochs"
[ "$(head -n 1 "$folder/v.vec")" = "40 16" ] || fail "the first line of the vectors is wrong"

# The nine nearest are the nine others of the topic, from both formats.
for vectors in v.vec v.safetensors e.vec h.vec f.vec m.vec; do
    "$program" neighbours "$folder/$vectors" c3 | head -n 9 | cut -f 2 >"$folder/near"
    [ "$(grep -c '^c' "$folder/near")" -eq 9 ] || fail "$vectors: neighbours of c3: $(tr '\n' ' ' <"$folder/near")"
done
# Pairs of one topic above pairs of two: the correlation with 1 and 0 is as high as ties allow.
printf 'a1 a2 1\nb1 b4 1\na1 b2 0\nc1 d4 0\nunknown a1 1\n' >"$folder/pairs"
"$program" similarity "$folder/v.vec" "$folder/pairs" >"$folder/scores"
grep -q 'pairs *0.89.* 4 of 5 pairs known' "$folder/scores" || fail "similarity: $(cat "$folder/scores")"
printf ': topics\na1 a1 b2 b3\nA1 a1 b2 zz\n' >"$folder/questions"
"$program" analogies "$folder/v.vec" "$folder/questions" >"$folder/answers"
grep -q '^all .* 1 known, 2 asked' "$folder/answers" || fail "analogies: $(cat "$folder/answers")"

# Errors name what is wrong.
refuse() {
    wanted=$1
    shift
    if "$program" "$@" >/dev/null 2>"$folder/errors"; then
        fail "$* was accepted"
    fi
    grep -q -- "$wanted" "$folder/errors" || fail "$*: $(cat "$folder/errors")"
}
refuse usage
refuse 'no key --depth' train "$folder/text" "$folder/x.vec" --depth 3
refuse 'window' train "$folder/text" "$folder/x.vec" --window 0
refuse 'whole number' train "$folder/text" "$folder/x.vec" --epochs 1.5
refuse 'no --KEY VALUE' train "$folder/text" "$folder/x.vec" --epochs
refuse 'every class' train "$folder/text" "$folder/x.vec" --estimator softmax
refuse 'those of a tree' train "$folder/text" "$folder/x.vec" --estimator hierarchical --fit 1
refuse 'goes with --fit-estimator' train "$folder/text" "$folder/x.vec" --fit-set candidates=5
refuse 'does not search' train "$folder/text" "$folder/x.vec" --fit 1 --fit-estimator nce
refuse 'draws them' train "$folder/text" "$folder/x.vec" --estimator mips
refuse 'OPTION=VALUE' train "$folder/text" "$folder/x.vec" --set negatives
cp "$folder/text" "$folder/kept"
ln "$folder/text" "$folder/linked"
ln -s text "$folder/pointed"
for name in text linked pointed; do
    refuse 'TEXT and VECTORS are one file' train "$folder/text" "$folder/$name"
    for key in also output history; do
        refuse "TEXT and --$key are one file" train "$folder/text" "$folder/x.vec" --$key "$folder/$name"
    done
done
refuse 'VECTORS and --output are one file' train "$folder/text" "$folder/x.vec" --output "$folder/./x.vec"
cmp "$folder/text" "$folder/kept" || fail 'the text was replaced'
refuse 'No such file' train "$folder/nowhere" "$folder/x.vec"
refuse 'not in the vocabulary' neighbours "$folder/v.vec" unknown
refuse 'line 1' similarity "$folder/v.vec" "$folder/text"
refuse 'cannot be read' analogies "$folder/v.vec" "$folder/nowhere"
printf 'one two three\n' >"$folder/bad"
refuse 'four words' analogies "$folder/v.vec" "$folder/bad"
[ ! -e "$folder/x.vec" ] || fail "a run that failed left vectors"
