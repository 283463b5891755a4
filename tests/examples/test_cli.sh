#!/bin/sh
# The command line: what it accepts, what it refuses and in which words, and that a failed run leaves files alone.
#
#   test_cli.sh XSOFTMAX gzip|no-gzip     the second says whether compressed data is read
# Words are split, and texts are not expanded, on purpose.
# shellcheck disable=SC2002,SC2015,SC2086,SC2094
# shellcheck source=tests/examples/checks.sh
. "$(dirname "$0")/checks.sh"
xsoftmax=$(path_of "$1")
gzip=$2

# run CODE ARGUMENT...: runs xsoftmax and compares its exit code.
run() {
    wanted=$1
    shift
    checks=$((checks + 1))
    code=0
    "$xsoftmax" "$@" >stdout 2>stderr </dev/null || code=$?
    [ "$code" -eq "$wanted" ] || wrong "exit code $code, not $wanted: $*"
    ! grep -q 'xsm_\|XSM_' stdout stderr || wrong "words of the library, not of the command: $*"
}

# --- data -------------------------------------------------------------------------------------------------------------
# Five classes, class k where feature 3k and its neighbours stand out; labels 10, 20, ... so that they are no classes.
make_rows() {
    awk -v rows="$1" -v seed="$2" 'BEGIN {
        for (i = 0; i < rows; i++) {
            seed = (seed * 1103515245 % 4294967296 + 12345) % 4294967296
            k = int(seed / 65536) % 5
            line = 10 * (k + 1)
            for (j = 0; j < 20; j++) {
                seed = (seed * 1103515245 % 4294967296 + 12345) % 4294967296
                v = int(seed / 65536) % 100 / 400 + (j >= 3 * k && j < 3 * k + 3)
                if (v > 0.1)
                    line = line " " j ":" v
            }
            print line
        }
    }'
}
make_rows 300 1 >rows
{ echo '303 20 60' && cat rows && printf ' 1:1\n20 \n30 9:1 10:0.5\n'; } >train.txt
{ echo '103 20 60' && make_rows 100 2 && printf '50 1:1\n 2:1\n10 3:1\n'; } >test.txt
awk 'NR > 1 && NF > 3 { print $1 "," $1 % 50 + 10 (NR % 3 ? "" : "," 60), substr($0, length($1) + 2) }' test.txt >many.txt
{ sed '$d' train.txt && echo '30,40 9:1 10:0.5'; } >several.txt
printf '10 1:1 2:2\n55 3:1\n 4:1\n' >strange.txt
printf '10 1:1\n20 2:x\n' >broken.txt
printf '99\n98\n' >other.list
printf '\n' >empty.list
printf '10\r\n40\n7\n' >some.list
printf '10\n' >known.list
printf 'label,a,b\n1,0.5,1\n2,1,0.5\n1,0.4,1.1\n' >dense.csv
printf 'kind\ta\tb\n1\t0.5\t1\n2\t1\t0.5\n' >dense.tsv
printf '1 1:1\n2 2:1\n' >small.svm
printf ' 0:1\n 2:1\n' >unlabelled.txt
awk 'BEGIN { for (i = 0; i <= 60; i++) print "name " i ": \303\244" }' >names.txt
printf 'only\nfew\n' >short-names.txt
printf '1 0:1e30\n2 1:1e30\n' >huge.txt
: >empty.txt
gzip -c train.txt >train.txt.gz
mkdir folder readonly
[ "$(id -u)" -eq 0 ] || chmod a-w readonly

# --- what is refused ----------------------------------------------------------------------------------------------------
# Each line: exit code | part of the message | arguments. Neither output may change or come to be, nothing is printed on
# standard output, and the message is one line.
refuse() {
    checks=$((checks + 1))
    arguments=$3
    echo old >out.model
    echo old >out.csv
    : >after
    ls -A >before
    code=0
    eval "\"\$xsoftmax\" $arguments" >stdout 2>stderr </dev/null || code=$?
    if [ "$code" -ne "$1" ]; then
        wrong "exit code $code, not $1: $arguments"
    elif [ "$(wc -l <stderr)" -ne 1 ] || ! grep -q '^xsoftmax: ' stderr; then
        wrong "not one line: $arguments"
    elif ! grep -qF -e "$2" stderr; then
        wrong "the message lacks '$2': $arguments"
    elif [ -s stdout ]; then
        wrong "prints on standard output: $arguments"
    elif [ "$(cat out.model out.csv)" != "$(printf 'old\nold')" ]; then
        wrong "an output changed: $arguments"
    else
        ls -A >after
        cmp -s before after || wrong "a file came to be: $arguments"
    fi
}

run 0 train --estimator implicit --data train.txt --model model --epochs 2
good='train --estimator implicit --data train.txt --model out.model --history out.csv --epochs 1'
while IFS='|' read -r wanted message arguments; do
    [ -n "$wanted" ] || continue
    refuse "$wanted" "$message" "$arguments"
done <<END
2|a command is missing|
2|unknown command 'trian'; did you mean 'train'?|trian
2|unknown command 'zzzzzz'; 'xsoftmax --help'|zzzzzz
2|unknown command '--json'|--json
2|unknown command 'trian'; did you mean 'train'?|help trian
2|unknown command 'help'|help train x
2|unknown command ''|''
2|train needs --data FILE|train
2|train needs --data FILE|train --model out.model
2|--data needs a value: --data FILE|train --data
2|--data needs a value|train --data --json
2|--data: the value is empty|train --estimator implicit --data ''
2|--data is given twice|train --data train.txt --data train.txt
2|--json is given twice|$good --json --json
2|--json takes no value|$good --json=yes
2|'train.txt' is not expected|train train.txt
2|unknown option '--epoch'; did you mean '--epochs'?|$good --epoch 3
2|unknown option '--lerning'; 'xsoftmax train --help'|$good --lerning=3
2|unknown option '-e'; options start with two dashes|$good -e 3
2|unknown option '--'|$good --=3
2|--epochs is given twice|$good --epochs 3
2|--batch: '0' is out of range; a whole number from 1|$good --batch 0
2|--batch: '-1' is not a whole number|$good --batch -1
2|--batch: '1.5' is not a whole number|$good --batch 1.5
2|--batch: '' is not a whole number|$good --batch ''
2|--batch: '99999999999999999999999' is out of range|$good --batch 99999999999999999999999
2|--eta: '0' is out of range; auto or a number above 0 and at most 1e+14 is accepted|$good --eta 0
2|--eta: '-1' is out of range|$good --eta -1
2|--eta: 'nan' is not a number|$good --eta nan
2|--eta: '1e999' is out of range|$good --eta 1e999
2|--eta: '1,5' is not a number|$good --eta 1,5
2|--eta: '1x' is not a number|$good --eta 1x
2|--eta: '1e' is not a number|$good --eta 1e
2|--ridge: '-1' is out of range|$good --ridge -1
2|--seed: '-1' is not a whole number|$good --seed -1
2|--threads: '0' is out of range|$good --threads 0
2|--threads: '5000' is out of range|$good --threads 5000
2|--bias only uses no feature|$good --bias only --transform unit
2|--bias: 'true' is not known; no, yes or only is accepted|$good --bias true
2|--order: 'random' is not known; shuffle or file|$good --order random
2|--labels: 'last' is not known; all, first or smallest|$good --labels last
2|--labels all: 'implicit' takes one label a row|$good --labels all
2|--format: 'json' is not known; auto, xc, libsvm, csv, tsv, text, npy, cache or npz|$good --format json
2|--index-base: '2' is not known; auto, 0 or 1|$good --index-base 2
2|--schedule: 'cosine' is not known; step:FACTOR, inverse|$good --schedule cosine
2|--schedule: '2' is not a factor|$good --schedule step:2
2|--schedule: '' is not a factor|$good --schedule step:
2|--schedule: '0' is not a factor|$good --schedule step:0
2|--schedule: '0.9x' is not a factor|$good --schedule step:0.9x
2|--estimator: |train --data train.txt --estimator implict
2|did you mean 'implicit'|train --data train.txt --estimator implict
2|--optimizer: no optimizer 'adam'; accepted is 'sgd', 'adagrad' or 'row-adagrad', or lbfgs|$good --optimizer adam
2|optimizer 'adagrad' has no option 'inital'; did you mean 'initial'?|train --estimator implicit --data train.txt --optimizer adagrad --set optimizer.inital=1
2|--set optimizer.initial: lbfgs has|train --data train.txt --optimizer lbfgs --estimator softmax --set optimizer.initial=1
2|optimizer 'sgd' has no option 'initial', nor any other|$good --set optimizer.initial=1
2|estimator 'softmax' has no option 'negatives'; it has ridge, |train --estimator softmax --data train.txt --set negatives=5
2|cannot apply the proximal steps of the estimator|train --data train.txt --estimator implicit --optimizer adagrad
2|cannot apply a ridge|train --data train.txt --estimator ove --ridge 1 --optimizer adagrad
2|--eta means nothing to --method label-tree|train --data train.txt --method label-tree --eta 1
2|no option 'tree'; did you mean 'trees'|train --data train.txt --method label-tree --set tree=1
2|--set seed: use --seed|train --data train.txt --method label-tree --set seed=1
2|--eta means nothing to lbfgs|train --data train.txt --optimizer lbfgs --estimator softmax --eta 1
2|--batch means nothing to lbfgs|train --data train.txt --optimizer lbfgs --estimator softmax --batch 4
2|--epochs means nothing to lbfgs|train --data train.txt --optimizer lbfgs --estimator softmax --epochs 4
2|--order means nothing to lbfgs|train --data train.txt --optimizer lbfgs --estimator softmax --order file
2|--schedule means nothing to lbfgs|train --data train.txt --optimizer lbfgs --estimator softmax --schedule sqrt
2|--iterations is for --optimizer lbfgs|$good --iterations 3
2|--tolerance is for --optimizer lbfgs|$good --tolerance 0.1
2|--activation is for embedding models: --hidden D|$good --activation relu
2|--pool is for embedding models|$good --pool mean
2|--tied is for embedding models|$good --tied
2|--pairs: 'negative-sampling' corrects the model's scores itself|train --data train.txt --estimator negative-sampling --pairs 2
2|--bias only uses no feature, so there is nothing for --pairs|$good --pairs 2 --bias only
2|--hidden: '0' is out of range; a whole number from 1 to 65536|$good --hidden 0
2|--activation: 'cosine' is not known; identity, relu or tanh is accepted|$good --hidden 4 --activation cosine
2|--geometry: 'cosine' is not known; linear or euclidean is accepted|$good --geometry cosine
2|--geometry euclidean: --bias only leaves no features|$good --geometry euclidean --bias only
2|--geometry euclidean: lbfgs takes linear scores|train --data train.txt --optimizer lbfgs --estimator softmax --geometry euclidean
2|--geometry: --warm-start keeps that of the model|train --data train.txt --estimator softmax --eta 1 --warm-start m --geometry euclidean
2|--geometry: --warm-start keeps that of the model|train --data train.txt --estimator softmax --eta 1 --warm-start m --geometry linear
2|--bias: --warm-start keeps that of the model|train --data train.txt --estimator softmax --eta 1 --warm-start m --bias no
2|--bias: --warm-start keeps that of the model|train --data train.txt --estimator softmax --eta 1 --warm-start m --bias only
2|--hidden: --warm-start keeps that of the model|train --data train.txt --estimator softmax --eta 1 --warm-start m --hidden 4
2|solves its steps needs linear scores|train --data train.txt --estimator implicit --eta 1 --geometry euclidean
2|a ridge, which pulls rows towards the origin,|train --data train.txt --estimator softmax --eta 1 --ridge 2 --geometry euclidean
2|--hidden: lbfgs takes linear models|train --data train.txt --optimizer lbfgs --estimator softmax --hidden 4
2|--bias only uses no feature, so there is nothing for --hidden|$good --hidden 4 --bias only
1|--tied: the features must be the classes, but there are 20 features and|$good --hidden 4 --tied
2|a batch of several rows that the estimator takes as a whole|$good --hidden 4 --batch 2 --eta 1
2|--tolerance: '1' is out of range|train --data train.txt --optimizer lbfgs --estimator softmax --tolerance 1
2|another optimizer than 'sgd' needs linear scores|train --data train.txt --estimator softmax --eta 1 --optimizer adagrad --geometry euclidean
2|so that rows cannot share their draws|train --data train.txt --estimator nce --set sampler=tree --set shared=yes
2|its nodes score features, and the rows have none|train --data train.txt --estimator nce --set sampler=tree --bias only --eta 1
2|scores some classes only; all rows at once take one|train --estimator implicit --data train.txt --optimizer lbfgs
2|--transform: |$good --transform unti
1|no row has a feature|$good --transform truncate=0
2|--transform: |$good --transform truncate=x
2|products=N, N from 1 to 2147483647|$good --transform unit,products=0
2|tfidf behind products|$good --transform products=2,tfidf
2|no transform step 'none'|$good --transform unit,none
2|--start means: give --eta|train --data train.txt --estimator softmax --start means
2|--start means: give --estimator|train --data train.txt --start means
2|--start means: class means need features and a bias|$good --bias no --start means
2|--start means: the vectors of --hidden|$good --hidden 4 --start means
2|--set means nothing to --method class-means|train --data train.txt --method class-means --set trees=3
2|--epochs means nothing to --method class-means|train --data train.txt --method class-means --epochs 3
2|--set: 'negatives' is not of the form KEY=VALUE|$good --set negatives
2|--set: '=3' is not of the form|$good --set =3
2|did you mean 'negatives'|$good --set negative=3
2|--set: |$good --set negatives=-1
2|--set: |$good --set negatives=many
2|--set: |$good --set solver=guess
2|--set negatives is given twice|$good --set negatives=1 --set negatives=2
2|--set is about an estimator|train --data train.txt --set negatives=3
2|--time-budget: '0' is out of range|$good --time-budget 0
2|--set seed: use --seed alone|$good --set seed=1
2|--set ridge: use --ridge alone|$good --ridge 1 --set ridge=1
2|--no-evaluate: --test needs|train --estimator implicit --data train.txt --test test.txt --no-evaluate
2|--no-evaluate: --history needs|train --estimator implicit --data train.txt --history out.csv --no-evaluate
2|--no-evaluate: --evaluate-train needs|train --estimator implicit --data train.txt --evaluate-train all --no-evaluate
2|--evaluate-train no: --history needs|train --estimator implicit --data train.txt --history out.csv --evaluate-train no
2|--evaluate-train: 'half' is not known; no, all or sample is accepted|train --estimator implicit --data train.txt --evaluate-train half
2|--history-measures needs --history|train --estimator implicit --data train.txt --history-measures psp
2|'accuracy' is none of precision|train --estimator implicit --data train.txt --history out.csv --history-measures precision,accuracy
2|'' is none of precision|train --estimator implicit --data train.txt --history out.csv --history-measures precision,
2|'psp' is named twice|train --estimator implicit --data train.txt --history out.csv --history-measures psp,ndcg,psp
2|--evaluate-every needs --history|train --estimator implicit --data train.txt --evaluate-every 2
2|--evaluate-every: '0' is out of range|$good --evaluate-every 0
2|cannot both be standard input|train --estimator implicit --data - --test -
2|--model: train.txt would replace a file that is read|train --estimator implicit --data train.txt --model train.txt
2|--history: test.txt would replace|train --estimator implicit --data train.txt --test test.txt --history test.txt
2|--history: ./out.csv is the file of --model|train --estimator implicit --data train.txt --model out.csv --history ./out.csv
1|missing.txt: |train --estimator implicit --data missing.txt --model out.model
1|missing.txt: |$good --test missing.txt
1|broken.txt, line 2, column 6: |train --estimator implicit --data broken.txt --model out.model --history out.csv
1|broken.txt, line 2, column 6: |$good --test broken.txt
1|empty.txt|train --estimator implicit --data empty.txt --model out.model
1|folder|train --estimator implicit --data folder --model out.model
1|unlabelled.txt|train --estimator implicit --data unlabelled.txt --model out.model
1|unlabelled.txt: no row has a label|$good --test unlabelled.txt
1|missing.txt|$good --label-names missing.txt
1|short-names.txt|$good --label-names short-names.txt
1|empty|$good --label-names empty.txt
1|folder: cannot write: is a directory|train --estimator implicit --data train.txt --model folder
1|nowhere/m: cannot write: nowhere|train --estimator implicit --data train.txt --model nowhere/m
1|folder/: cannot write|train --estimator implicit --data train.txt --history folder/
1|negatives|$good --set negatives=5
1|step|train --data huge.txt --model out.model --history out.csv --eta 1e14 --estimator softmax --epochs 50
1|kind|train --estimator implicit --data dense.tsv --label-column king --model out.model
1|label|train --estimator implicit --data dense.tsv --model out.model
1|/dev/full|train --estimator implicit --data train.txt --epochs 1 --eta 1 --model /dev/full
2|--test-labels-from needs --test|$good --test-labels-from train.txt
2|--test-weights needs --test|$good --test-weights train.txt
2|from 0 to 9007199254740992 is|$good --seed -1
2|--to-index-base is of --to libsvm, not xc|convert --data train.txt --to xc --output out.model --to-index-base 0
2|--seed is of --shuffle and --split|convert --data train.txt --to xc --output out.model --seed 1
2|--labels-to is of --to npy, not csv|convert --data train.txt --to csv --output out.model --labels-to y
2|--names-to is of --to xc, libsvm and npy; csv has the names|convert --data train.txt --to csv --output out.model --names-to y
1|labels go to a file of their own (--labels-to)|convert --data dense.csv --to npy --output out.model
1|the classes have names, and this format has numbers; set --names-to,|convert --data train.txt --label-names names.txt --to xc --output out.model
1|--names-to: the classes have no names|convert --data train.txt --to xc --output out.model --names-to y
2|--to-weights-column is of --to csv or tsv, not npy|convert --data train.txt --to npy --output out.model --to-weights-column y
2|--weights-to and --to-weights-column|convert --data train.txt --to csv --output out.model --to-weights-column y --weights-to z
1|--to-weights-column: the rows have no weights|convert --data dense.csv --to csv --output out.model --to-weights-column y
1|(--weights-column) or in a file of their own (--weights); one|convert --data dense.csv --weights-column y --weights z --to xc --output out.model
1|dense.tsv, line 1, column 1: no column 'king' (--weights-column); the columns are|convert --data dense.tsv --label-column kind --weights-column king --to xc --output out.model
1|train.txt: a column of weights (y, --weights-column) goes with|$good --weights-column y
2|--test-weights: --weights-column names|$good --test test.txt --test-weights z --weights-column y
2|--to-label-column is of --to csv or tsv, not npy|convert --data train.txt --to npy --output out.model --to-label-column y
2|evaluate needs --model FILE|evaluate
2|evaluate needs --data FILE|evaluate --model model
2|unknown option '--top'|evaluate --model model --data test.txt --top 3
1|missing: |evaluate --model missing --data test.txt
1|missing.txt: |evaluate --model model --data missing.txt
1|train.txt: is no model file (safetensors)|evaluate --model train.txt --data test.txt
1|train.txt is no model file, but model is one; did you swap --model and --data?|predict --model train.txt --data model
1|train.txt is no model file, but model is one; did you swap --model and --data?|evaluate --model train.txt --data model
1|empty.txt: |evaluate --model empty.txt --data test.txt
1|unlabelled.txt: |evaluate --model model --data unlabelled.txt
1|broken.txt, line 2, column 6: |evaluate --model model --data broken.txt
2|predict needs --model FILE|predict --data test.txt
2|--top: '0' is out of range|predict --model model --data test.txt --top 0
2|--top: '65537' is out of range|predict --model model --data test.txt --top 65537
2|--top: 'x' is not a whole number|predict --model model --data test.txt --top x
1|missing: |predict --model model --data test.txt --allow missing
1|is no label|predict --model model --data test.txt --deny broken.txt
1|no label in it is one of the model|predict --model model --data test.txt --allow other.list
1|there is no label in it|predict --model model --data test.txt --allow empty.list
1|leave no class|predict --model model --data test.txt --allow known.list --deny known.list
2|--exclude: 'x'|predict --model model --data test.txt --exclude x
2|0 to 1 is accepted|predict --model model --data test.txt --threshold 2 --probabilities
2|--probabilities takes no value|predict --model model --data test.txt --probabilities=yes
1|missing: |predict --model missing --data test.txt
2|no index 'sphericle'; did you mean 'spherical'?|predict --model model --data test.txt --index sphericle
2|need --index|predict --model model --data test.txt --probe 5
2|no option 'porbe'|predict --model model --data test.txt --index spherical --index-set porbe=5
2|KEY=VALUE|predict --model model --data test.txt --index spherical --index-set porbe
2|not with --index|predict --model model --data test.txt --index exact --probabilities
2|not both|predict --model model --data test.txt --index exact --beam 9
2|not both|predict --model model --data test.txt --index exact --tree-alone
2|one of them is accepted|predict --model model --data test.txt --index exact --shortlist model
2|--candidates needs --shortlist FILE|predict --model model --data test.txt --candidates 9
2|not with --shortlist|predict --model model --data test.txt --shortlist model --probabilities
2|one of them is accepted|evaluate --model model --data test.txt --tree-alone --shortlist model
1|this model is none|predict --model model --data test.txt --shortlist model
2|not with --beam|predict --model model --data test.txt --beam 9 --probabilities
2|--beam: '0' is out of range|predict --model model --data test.txt --beam 0
2|not both|evaluate --model model --data test.txt --index exact --beam 9
2|need --index|evaluate --model model --data test.txt --probe 5
2|not with --index, --probe or --index-set|evaluate --model model --data test.txt --index-file x --probe 5
2|not both|evaluate --model model --data test.txt --index-file x --beam 9
2|not with --index-file|predict --model model --data test.txt --index-file x --probabilities
1|missing.index: |predict --model model --data test.txt --index-file missing.index
1|no index's file|predict --model model --data test.txt --index-file model
2|index needs --output FILE|index --model model
2|no index 'sphericle'; did you mean 'spherical'?|index --model model --output out --index sphericle
1|xsoftmax: /nonexistent/x: cannot write|index --model model --output /nonexistent/x
1|xsoftmax: /nonexistent/x: cannot write|prune --model model --output /nonexistent/x --keep 3
2|no option 'porbe'|evaluate --model model --data test.txt --index spherical --index-set porbe=5
1|the model has no tree|predict --model model --data test.txt --beam 9
1|the model has no tree|predict --model model --data test.txt --tree-alone
1|sampler=tree|evaluate --model model --data test.txt --beam 9
2|'exact' has no option 'probe'|predict --model model --data test.txt --index exact --probe 5
1|standard input|predict --model model --data -
1|broken.txt, line 2, column 6: |predict --model model --data broken.txt
2|info needs one FILE|info
2|info needs one FILE|info train.txt --model model
2|prune needs --output FILE|prune --model model --below 1
2|--below X or --keep N|prune --model model --output out
2|--below: '0' is out of range|prune --model model --output out --below 0
2|--keep: '0' is out of range|prune --model model --output out --keep 0
1|missing|prune --model missing --output out --below 1
2|'c' is not expected|prune --model model --output out c --keep 1
2|import needs --output FILE|import --model model
2|--method label-tree|train --data train.txt --estimator label-tree
2|--labels-to: - is the file of --output|convert --data test.txt --to npy --output - --labels-to -
1|model: no model of fastText|import --model model --output out
1|missing.bin|import --model missing.bin --output out
2|convert-model needs --output FILE|convert-model --model model --type int8
2|--type says so: float32, |convert-model --model model --output out
2|--type|convert-model --model model --output out --type float64
1|missing|convert-model --model missing --output out --type int8
1|unlabelled.txt: |prune --model model --output out --keep 1 --test unlabelled.txt
2|'b' is one operand too many|info train.txt b
1|missing|info missing
1|empty.txt|info empty.txt
2|did you mean 'umax'|estimators uamx
2|'b' is one operand too many|estimators ove b
2|unknown option '--json'|estimators --json
END
if [ "$(id -u)" -ne 0 ]; then
    refuse 1 'readonly: Permission denied' 'train --estimator implicit --data train.txt --model readonly/m'
fi

# A model that is cut short or altered is refused, whatever the command.
head -c 300 model >cut.model
expect 'the model is longer than 300 bytes' test "$(wc -c <model)" -gt 300
{ head -c "$(($(wc -c <model) - 1))" model && printf 'x'; } >altered.model
for command in evaluate predict; do
    refuse 1 'cut.model' "$command --model cut.model --data test.txt"
    refuse 1 'altered.model' "$command --model altered.model --data test.txt"
done
refuse 1 'altered.model' 'info altered.model'

# A closed or full standard output is a failure, and the model is kept: the run itself succeeded.
for arguments in --help --version 'estimators' 'estimators ove' 'info train.txt' \
    'predict --model model --data test.txt' 'evaluate --model model --data test.txt --json'; do
    checks=$((checks + 1))
    code=0
    # shellcheck disable=SC2086
    "$xsoftmax" $arguments >/dev/full 2>stderr || code=$?
    : >stdout
    [ "$code" -eq 1 ] || wrong "exit code $code with a full disk: $arguments"
    says stderr 'xsoftmax: cannot write to standard output'
done

# --- help -----------------------------------------------------------------------------------------------------------------
for arguments in --help -h help 'train --help' 'train -h' 'evaluate --help' 'predict --data x --help' 'info --help' 'prune --help' \
    'estimators --help' 'samplers --help' 'optimizers --help' 'indexes --help' 'help train' 'help info'; do
    # shellcheck disable=SC2086
    prints 'Usage: xsoftmax' $arguments
    expect "help within 120 columns: $arguments" test "$(awk 'length($0) > 120' stdout | wc -l)" -eq 0
done
run 0 -V
expect 'the version is a line' grep -q '^xsoftmax [0-9]*\.[0-9]*\.[0-9]*$' stdout
run 0 estimators
for name in softmax margin mips decomp-mips one-vs-all one-vs-all-sampled ove vanilla raman umax implicit nce importance sampled-softmax negative-sampling ove-sampled ove-searched hierarchical augment-reduce; do
    says stdout "$name "
done
prints 'negatives=' estimators implicit
says stdout 'newton or bisection'
says stdout 'ridge='
prints 'uniform, frequency, recent, midx, tree or label-tree' estimators nce
run 0 samplers
for name in uniform frequency tree label-tree; do
    says stdout "$name "
done
prints 'sampler.power=1' samplers frequency
fails 2 "did you mean 'frequency'" samplers frequancy
prints 'adagrad ' optimizers
prints 'optimizer.initial=' optimizers adagrad
prints 'no options' optimizers sgd
fails 2 "accepted is 'sgd', 'adagrad' or 'row-adagrad'" optimizers adam
prints 'exact ' indexes
says stdout 'spherical '
prints 'index.probe=0' indexes spherical
fails 2 "did you mean 'spherical'" indexes sherical
prints 'index=spherical' estimators decomp-mips
says stdout 'With index=spherical:'
says stdout 'index.probe=0'
prints 'With sampler=tree:' estimators ove-sampled
says stdout 'sampler.power=1'

# --- train -----------------------------------------------------------------------------------------------------------------
rm -f out.model out.csv
run 0 train --estimator implicit --data train.txt --test test.txt --transform tfidf,unit --epochs 20 --eta 3 --label-names names.txt \
    --model m1 --history h1.csv --threads 1
says stdout '302 rows, 20 features, 5 classes'
says stdout 'dropped: 1 rows without a label or of weight 0, 0 without a feature'
says stdout '1 rows without a feature, from which the bias alone learns'
says stdout '1 without a label (left out)'
expect 'nothing on standard error' test ! -s stderr
expect 'the history has a line an epoch' test "$(wc -l <h1.csv)" -eq 21
expect 'the history has twelve columns' test "$(awk -F, 'NF != 12' h1.csv | wc -l)" -eq 0
expect 'no field of the history is empty' test "$(grep -c ',,\|,$' h1.csv)" -eq 0
expect 'the history starts with the names' test "$(head -n 1 h1.csv)" = \
    'epoch,step,seconds,eta,train_log_loss,train_error,test_log_loss,test_error,precision_1,precision_3,precision_5,precision_10'
expect 'no temporary file is left' test "$(find . -name '*.new' | wc -l)" -eq 0

# A sampler and its options, in any order, are kept in the model.
run 0 train --data train.txt --estimator nce --set sampler.power=0.5 --set sampler=frequency --model m0
prints 'estimator.sampler      frequency' info m0
says stdout 'estimator.sampler.power 0.5'
fails 2 "did you mean 'power'" train --data train.txt --estimator nce --set sampler.pwer=0.5 --set sampler=frequency
fails 2 "no option 'sampler'" train --data train.txt --estimator umax --set sampler=frequency
# What negative sampling leaves in the scores is the model's to remove.
run 0 train --data train.txt --estimator negative-sampling --set sampler=tree --model m0
prints 'correction             tree' info --model m0
run 0 evaluate --model m0 --data test.txt
rm -f m0

# A calibrated model has other probabilities, and the same best classes.
run 0 train --data several.txt --drop-empty --estimator softmax --eta 1 --epochs 3 --model m0
prints 'softmax    temperature ' calibrate --model m0 --data test.txt --output c0
says stdout 'ECE        '
prints 'calibration            temperature ' info --data c0
prints 'ECE        ' evaluate --model c0 --data test.txt
prints '"rows":50,' calibrate --model m0 --data test.txt --rows 50 --json --output c1
prints 'classes    each by itself: scale ' calibrate --model m0 --data many.txt --labels all --output c1
prints 'calibration            each class by itself, scale ' info c1
run 0 predict --model m0 --data test.txt
mv stdout best
run 0 predict --model c0 --data test.txt
expect 'the same best classes' cmp -s stdout best
# As the last step of training: the same model as by two commands.
run 0 train --data several.txt --drop-empty --estimator softmax --eta 1 --epochs 3 --calibrate test.txt --model c1
expect 'calibrated at the end' cmp -s c0 c1
run 2 train --data train.txt --estimator softmax --eta 1 --calibrate test.txt --model test.txt
run 0 train --data many.txt --method label-tree --calibrate many.txt --model c1
run 0 train --data test.txt --method label-tree --labels first --calibrate train.txt --json
expect 'the temperature of a label tree' grep -q '"temperature":[0-9]' stdout
# What a label tree keeps of its nodes, from which the same command goes on.
run 0 train --data many.txt --method label-tree --set leaf=2 --checkpoint c2 --checkpoint-every 0 --model c3
run 0 train --data many.txt --method label-tree --set leaf=2 --resume c2 --checkpoint c2 --model c4
expect 'the same tree' cmp -s c3 c4
fails 1 'label-tree.leaf = 2, this run has 100' train --data many.txt --method label-tree --resume c2 --model c4
fails 1 'c2: a checkpoint of label trees: --method label-tree goes on' train --data many.txt --resume c2 --model c4
prints 'done                   1 of 1 trees' info c2
says stdout 'label-tree.leaf        2'
says stdout 'to go on               train --method label-tree --resume c2'
prints '"trees_done":1,"options":{"arity":"' info --json c2
run 1 train --data many.txt --estimator one-vs-all --epochs 1 --eta 1 --labels all --resume c2
fails 1 'not a checkpoint' train --data many.txt --method label-tree --resume c3 --model c4
prints 'calibration            each class by itself, scale ' info c1
fails 1 'missing.txt' train --data train.txt --estimator softmax --eta 1 --calibrate missing.txt
run 0 train --data train.txt --test test.txt --measure precision --json
expect 'the measure' grep -q '"measure":"precision"' stdout
run 0 train --data train.txt --test test.txt --labels all --measure log-loss
prints '"measure_top":3,"measure":"hits"' train --data train.txt --test test.txt --measure hits@3 --json
run 0 train --data train.txt --measure mrr
says stderr '1 - MRR@10'
run 2 train --data train.txt --measure hits@0
fails 2 'may name the classes that they look at' train --data train.txt --measure log-loss@2
run 2 train --data train.txt --measure error
run 0 train --data train.txt --threads 1 --model c2
run 0 train --data train.txt --threads 2 --model c3
expect 'the same model' cmp -s c2 c3
rm -f c2 c3
fails 2 '--measure' train --data train.txt --estimator softmax --measure ndcg
fails 2 '--output: m0 would replace a file that is read; --in-place allows that' calibrate --model m0 --data test.txt --output m0
fails 2 'calibrate needs --output FILE' calibrate --model m0 --data test.txt
run 1 calibrate --model m0 --data unlabelled.txt --output c2
expect 'nothing is written' test ! -e c2
rm -f m0 c0 c1 best

# Pairs are counted after training, with whatever estimator, and are the model's.
run 0 train --data train.txt --test test.txt --hidden 4 --epochs 2 --eta 0.1 --pairs 2.5 --model p0
prints 'correction             pairs' info p0
says stdout 'training.pairs         2.5'
run 0 evaluate --model p0 --data test.txt
run 0 train --data train.txt --warm-start p0 --estimator implicit --epochs 1 --eta 0.1 --model p1
prints 'correction             pairs' info p1
fails 1 'made with pairs of features and classes' predict --model p0 --data test.txt --index exact
fails 1 '--pairs 0 does without' train --data train.txt --warm-start p0 --estimator hierarchical --epochs 1 --eta 0.1 --model p2
run 0 train --data train.txt --warm-start p0 --estimator implicit --epochs 1 --eta 0.1 --pairs 0 --model p1
run 0 predict --model p1 --data test.txt --index exact
rm -f p0 p1

# What is small of a model is left out; what is lost is said.
run 0 train --data train.txt --test test.txt --estimator softmax --epochs 20 --eta 0.5 --seed 3 --model d0
prints 'weights    ' prune --model d0 --output s0 --keep 1 --test test.txt
says stdout 'log-loss   '
says stdout 'P@1        '
expect 'one weight a class is kept' grep -q ', 1.0 a class' stdout
prints ' weights (' info s0
run 0 prune --model d0 --output s1 --below 1e-30 --test test.txt --json
expect 'nothing is lost without zeros' test "$(grep -o '"test_before":{"log_loss":0.....' stdout | cut -d: -f3)" = \
    "$(grep -o '"test":{"log_loss":0.....' stdout | cut -d: -f3)"
expect 'the bytes of the file are said' grep -q "\"model_bytes\":$(wc -c <s1)[,}]" stdout
run 0 predict --model d0 --data test.txt --top 1
cut -d : -f 1 stdout >dense.classes
run 0 predict --model s1 --data test.txt --top 1
expect 'the same classes from sparse weights' test "$(cut -d : -f 1 stdout)" = "$(cat dense.classes)"
run 0 evaluate --model s1 --data test.txt
fails 1 'pruning needs dense weights' prune --model s1 --output s2 --keep 1
run 1 train --data train.txt --warm-start s1 --estimator softmax --epochs 1 --eta 0.1 --model s2
says stderr 's1: its weights are sparse, and dense ones are trained; start from the model that was pruned'

# Weights in fewer bits, of each kind that the library has, predict and are evaluated, and are not trained.
kinds=$(sed -n 's/^    KIND(with, [A-Z0-9]*, \([a-z0-9]*\), .*/\1/p' "$here/../../lib/kernels/weight_kinds.h" | grep -vx float32)
expect 'kinds of weights are found' test -n "$kinds"
for type in $kinds; do
    prints "weights    $type, " convert-model --model d0 --output q0 --type $type --test test.txt
    says stdout '; was float32, '
    says stdout 'P@1        '
    prints " ($type, " info q0
    run 0 predict --model q0 --data test.txt --top 1
    run 0 predict --model q0 --data test.txt --top 1 --index exact
    run 0 evaluate --model q0 --data test.txt
    fails 1 "q0: its weights are $type, and float32 is trained" train --data train.txt --warm-start q0 --estimator softmax --epochs 1 --eta 0.1 --model q1
    says stderr "'xsoftmax convert-model --model q0 --output OUT --type float32'"
done
run 0 convert-model --model d0 --output q0 --type int8 --json
expect 'a quarter of the weights' test "$(sed 's/.*"weight_bytes":\([0-9]*\).*/\1/' stdout)" -lt \
    "$(sed 's/.*"weight_bytes_before":\([0-9]*\).*/\1/' stdout)"
for type in $kinds; do
    prints "weights    $type, " convert-model --model s1 --output q0 --type $type --test test.txt
    prints " weights ($type, " info q0
    run 0 predict --model q0 --data test.txt --top 1
    fails 1 "$type" prune --model q0 --output s2 --keep 1
done
rm -f q0
fails 1 'an index needs dense weights' predict --model s1 --data test.txt --index exact
run 1 prune --model d0 --output s2 --keep 1 --format npy
expect 'nothing is written after an error' test ! -e s2
rm -f d0 s0 s1 dense.classes

# Embedding models: trained, said what they are, and used as any other.
run 0 train --data train.txt --test test.txt --hidden 12 --activation tanh --pool mean --eta 0.5 --epochs 30 --seed 4 --model h0
says stdout 'embedding, 20 features to 12 by mean and tanh, 5 classes with bias (1.2 KiB)'
prints 'embedding, 20 features to 12 by mean and tanh, 5 classes with bias' info h0
run 0 evaluate --model h0 --data test.txt
expect 'an embedding model learns the classes' grep -Eq 'error +[0-9]\.[0-9]' stdout
run 0 predict --model h0 --data test.txt --top 2
run 0 train --data train.txt --hidden 12 --activation tanh --pool mean --eta 0.5 --epochs 30 --seed 4 --threads 1 --model h1
expect 'one seed gives one embedding model' cmp h0 h1
prints '"hidden":3,' train --data train.txt --hidden 3 --epochs 1 --eta 0.5 --json
printf '4 4 4\n0 1:1\n1 2:1\n2 0:1\n3 0:1 1:1\n' >tied.txt
prints '4 features to 3 by sum, tied, 4 classes' train --data tied.txt --hidden 3 --tied --epochs 1 --eta 0.5 --model h2
prints 'tied' info h2

# Scores that are distances.
prints '5 classes x 20 features by distance' train --data train.txt --geometry euclidean --eta 1 --epochs 20 --model d0
prints 'by distance' info d0
run 0 evaluate --model d0 --data test.txt
run 0 predict --model d0 --data test.txt --index spherical --top 2
prints 'to 3 by sum, 5 classes by distance' train --data train.txt --geometry euclidean --hidden 3 --estimator margin --eta 0.1 --epochs 5 --model d1
prints '"geometry":"euclidean"' train --data train.txt --estimator mips --set loss=triplet --geometry euclidean --eta 0.1 --epochs 2 --json
fails 2 'vectors that are not tied can have distances' train --data tied.txt --geometry euclidean --estimator softmax --hidden 3 --tied --eta 1
rm -f d0 d1

# Ranks of labels: with one class above and one known to be right, the other is second or first.
printf '1 1:1\n2 2:1\n3 3:1\n1 1:1 2:1\n' >three.txt
run 0 train --data three.txt --estimator softmax --epochs 20 --eta 1 --model r0
printf '1,3 1:1\n2 2:1\n' >ask.txt
prints 'ranks      MRR ' evaluate --model r0 --data ask.txt --labels all --ranks
says stdout 'of 3 labels'
prints '"ranks":{"labels":3,"unseen_labels":0,"mrr":' evaluate --model r0 --data ask.txt --labels all --ranks --known three.txt --json
says stdout '"hits":{"1":'
fails 2 '--known lists what --ranks leaves out' evaluate --model r0 --data ask.txt --known three.txt
fails 1 'missing.txt' evaluate --model r0 --data ask.txt --ranks --known missing.txt

# What a choice or a model cannot be right about: a label a row, one label, new labels that look like old ones.
awk 'BEGIN { print "a,b,label"; for (i = 0; i < 60; i++) printf "%d,%d,%d.5\n", i * 37 % 60, i * 23 % 60, i }' >single.csv
run 0 train --data single.csv
says stderr '60 of the 60 labels are fractions, and most rows have one of their own'
says stderr 'nearly all of the 60 classes have one row: rows that were trained on judge'
says stderr '; on 60 of these without half of their features: '
printf 'a,label\n1,x\n2,x\n' >single.csv
run 0 train --data single.csv --model single
says stderr 'single.csv: all rows have the same label'
printf 'a,label\n1,X\n2,x\n' >single.csv
run 0 train --data single.csv --warm-start single --estimator softmax --eta 1 --model single
says stderr "1 labels that the model lacks look like one that it has, the first is 'X' beside 'x'"

# Text: what was said when training is said once; names and n-grams come with the model.
printf '__label__sport the team won the game\n__label__vote the party lost the vote\n\nno label\n#x y\n' >words.txt
sed 's/__label__/#/' words.txt >hash.txt
fails 1 '--tied: the features are words, in another order' train --data words.txt --estimator softmax --eta 1 --hidden 4 --tied
printf 'a game\nparty\n' >new.txt
prints '2 rows' train --estimator implicit --data words.txt --word-ngrams 2 --min-chars 2 --max-chars 3 --buckets 500 --epochs 5 --eta 1 --model text.model
prints 'n-grams of up to 2 words; n-grams of 2 to 3 characters in 500 buckets' info text.model
prints 'sport:' predict --model text.model --data new.txt --top 1
says stdout 'vote:'
cp stdout first
echo sport >sport.list
run 0 predict --model text.model --data new.txt --allow sport.list
expect 'classes by name' test "$(cut -d: -f1 stdout | sort -u)" = sport
[ "$gzip" = no-gzip ] || gzip new.txt
[ "$gzip" = no-gzip ] || run 0 predict --model text.model --data new.txt.gz --top 1
expect 'the same from compressed text' cmp first stdout
prints 'error      0.00 %' evaluate --model text.model --data words.txt
prints 'data, words, sparse' info words.txt --min-count 2
says stdout 'features               1'
run 0 train --estimator implicit --data hash.txt --label-prefix '#' --epochs 5 --eta 1 --model hash.model
prints '3 rows with a label' evaluate --model hash.model --data hash.txt
# N-grams are chosen where nothing is said of them: of four words in a circle their pairs say which way it goes.
awk 'BEGIN {
    split("ab cd ef gh", word, " ")
    split("1234 1324 1243", circle, " ")
    for (i = 0; i < 150; i++) {
        line = "__label__" i % 3
        for (j = 0; j < 4; j++) line = line " " word[substr(circle[i % 3 + 1], (j + int(i / 3)) % 4 + 1, 1)]
        print line
    }
}' >circles.txt
prints '"ngrams":{"name":"words and pairs","word_ngrams":2,"min_chars":0,"max_chars":0,"buckets":16,' train --data circles.txt --test circles.txt --json --model pairs.model
expect 'the pairs decide' grep -q '"error":0,"rows":150,"precision"' stdout
says stderr 'n-grams    words and pairs, in 16 buckets: '
says stderr 'words                      '
prints 'n-grams of up to 2 words in 16 buckets' info pairs.model
prints 'error      0.00 %' evaluate --model pairs.model --data circles.txt
"$xsoftmax" train --data - --no-evaluate --model piped.model <circles.txt >stdout 2>stderr
expect 'the same n-grams from a pipe' cmp pairs.model piped.model
run 0 predict --model pairs.model --data circles.txt --probabilities
cp stdout first
run 0 train --data circles.txt --word-ngrams 2 --buckets 16 --no-evaluate --model named.model
run 0 predict --model named.model --data circles.txt --probabilities
expect 'as if they had been named' cmp first stdout
prints '"ngrams":null' train --data circles.txt --word-ngrams 1 --no-evaluate --json
run 0 convert --data circles.txt --like pairs.model --to cache --output circles.cache
prints 'error      0.00 %' evaluate --model pairs.model --data circles.cache
run 0 train --data circles.txt --optimizer sgd --checkpoint circles.checkpoint --no-evaluate --model whole.model
run 0 train --data circles.txt --resume circles.checkpoint --no-evaluate --model resumed.model
expect 'the n-grams of the run that is resumed' cmp whole.model resumed.model
rm -f ./*.checkpoint whole.model resumed.model piped.model named.model
fails 2 '--max-chars must be as large or larger' train --estimator implicit --data words.txt --min-chars 3
fails 2 '1 to 16' train --estimator implicit --data words.txt --word-ngrams 17
# Formats: there and back again is the same file, and a model trained on the cache is the same model.
prints 'all.cache: 303 rows' convert --data several.txt --to cache --output all.cache
fails 1 'all.cache has rows with several labels, and csv holds one a row; --labels first' convert --data all.cache --to csv --output all.csv
fails 1 'xsoftmax: /dev/full: cannot write: No space left' convert --data all.cache --to xc --output /dev/full
run 0 convert --data train.txt --labels first --drop --to cache --output train.cache
prints 'data, a cache, sparse' info train.cache
for format in xc libsvm csv tsv; do
    run 0 convert --data train.cache --to $format --output train.$format
    run 0 convert --data train.$format --to cache --output again.cache
    run 0 convert --data again.cache --to xc --output again.$format
    expect "the same rows from $format" cmp train.xc again.$format
done
run 0 convert --data train.cache --to npy --output train.npy --labels-to labels.npy
run 0 convert --data train.npy --labels-from labels.npy --to xc --output again.npy.txt
expect 'the same rows from npy' cmp train.xc again.npy.txt
run 0 train --data train.npy --labels-from labels.npy --test train.npy --test-labels-from labels.npy --epochs 3 --eta 1 --model npy.model
run 0 evaluate --model npy.model --data train.npy --labels-from labels.npy --json
cp stdout npy.first
run 0 evaluate --model npy.model --data again.npy.txt --json
expect 'the same rows evaluated from npy' test "$(grep -o '"log_loss":0.0*[1-9]...' npy.first)" = "$(grep -o '"log_loss":0.0*[1-9]...' stdout)"
run 0 predict --model npy.model --data train.npy --top 1
expect 'a prediction for each row of a matrix alone' test "$(wc -l <stdout)" -eq "$(tail -n +2 train.xc | wc -l)"
fails 1 'train.npy: no row has a label; those of a NumPy matrix are in a file of their own (--labels-from FILE' train --data train.npy --eta 1
fails 1 'to test --test-labels-from FILE' train --data train.npy --labels-from labels.npy --test train.npy --eta 1
fails 1 'no row has a label' evaluate --model npy.model --data train.npy
fails 1 'train.txt: row 0 (from 0) has labels; they are in it or in a file of their own (--labels-from)' train --data train.txt --labels-from labels.npy --eta 1
fails 1 'go with NumPy files and XC text alone' evaluate --model npy.model --data train.cache --labels-from labels.npy
# Weights of 2 and half the rate are the same steps; rows of weight 2 are evaluated as the same rows twice.
rows=$(tail -n +2 train.xc | wc -l)
yes 2 | head -n "$rows" >twos
run 0 train --data train.xc --format xc --estimator softmax --eta 1 --epochs 2 --model once
run 0 train --data train.xc --format xc --estimator softmax --eta 0.5 --epochs 2 --weights twos --model twice
run 0 predict --model once --data train.xc --format xc --top 2
cp stdout once.txt
run 0 predict --model twice --data train.xc --format xc --top 2
expect 'weights of 2 and half the rate are the same steps' cmp once.txt stdout
tail -n +2 train.xc >rows.xc
awk '{ print NR % 3 }' rows.xc >some
awk '{ for (i = 0; i < NR % 3; i++) print }' rows.xc >copies.xc
run 0 evaluate --model once --data rows.xc --format xc --weights some --json
grep -o '"log_loss":0.0*[1-9]..' stdout >weighted
grep -o '"error":[^,]*' stdout >>weighted
run 0 evaluate --model once --data copies.xc --format xc --json
{ grep -o '"log_loss":0.0*[1-9]..' stdout; grep -o '"error":[^,]*' stdout; } >copied
expect 'an evaluation with weights is that of copies' cmp weighted copied
run 0 convert --data rows.xc --format xc --weights some --to cache --output weighted.cache
run 0 convert --data weighted.cache --to csv --labels first --output weighted.csv --weights-to some.again
expect 'weights in a cache and beside a table' cmp some some.again
run 0 convert --data weighted.cache --to tsv --labels first --output weighted.tsv --to-weights-column w
run 0 convert --data weighted.tsv --weights-column w --to csv --output again.csv --weights-to some.again
expect 'weights in a column' cmp some some.again
expect 'the other columns' cmp weighted.csv again.csv
run 0 train --data weighted.cache --estimator softmax --eta 1 --epochs 1 --test rows.xc --format auto --test-weights some --model w
# Weights of labels and classes: on a row's only label they are weights of the row, but for one-vs-all.
sed 's/^\([0-9]*\)[0-9,]* /\1 /' rows.xc >single.xc
sed 's/^\([0-9]*\) /\1:2 /' single.xc >single-twos.xc
run 0 train --data single.xc --format xc --estimator margin --eta 1 --epochs 1 --weights twos --model by-row
run 0 train --data single-twos.xc --format xc --label-weights --estimator margin --eta 1 --epochs 1 --model by-label
run 0 predict --model by-row --data single.xc --format xc --top 2
cp stdout by-row.txt
run 0 predict --model by-label --data single.xc --format xc --top 2
expect 'weights of single labels are weights of rows' cmp by-row.txt stdout
sed 's/ .*//' single.xc | sort -n | uniq | sed 's/$/ 2/' >by-class
run 0 train --data single.xc --format xc --class-weights by-class --estimator margin --eta 1 --epochs 1 --model by-class.model
run 0 predict --model by-class.model --data single.xc --format xc --top 2
expect 'weights of classes are weights of their labels' cmp by-row.txt stdout
for how in balanced propensity; do
    run 0 train --data train.txt --labels all --estimator one-vs-all --eta 1 --epochs 1 --class-weights $how --model w
done
echo 'nothing 1' >by-class
fails 1 "--class-weights: by-class, line 1, column 1: 'nothing' is no label of the rows" train --data single.xc --format xc --class-weights by-class --eta 1
# Weights of labels belong to no name: the flag is of every command with labels, and models of text keep it.
printf '__label__a:2 x y\n__label__b:3 z w\n' >heavy.words
run 0 train --data heavy.words --label-weights --estimator softmax --eta 9 --epochs 30 --test heavy.words --model heavy.model
prints 'training.label_weights yes' info heavy.model
prints 'error      0.00 %' evaluate --model heavy.model --data heavy.words
run 0 train --warm-start heavy.model --data heavy.words --estimator softmax --eta 1 --test heavy.words --model heavier.model
expect 'weights of labels in rows to test' test "$(grep -c '^test .*error 0.00 %' stdout)" -eq 1
prints 'error      0.00 %' evaluate --model heavier.model --data heavy.words
printf '__label__a:2 x y\n__label__b:3 z w\n__label__b:3 x\n' >mixed.words
prints '3 rows' calibrate --model heavy.model --data mixed.words --output heavy.calibrated
run 0 predict --model heavy.model --data heavy.words --top 1 --exclude known
expect 'known labels are found' test "$(sed 's/:.*//' stdout | tr '\n' ' ')" = 'b a '
printf '1:2 0:1\n2:3 1:1\n' >heavy.svm
run 0 train --data heavy.svm --format libsvm --label-weights --estimator softmax --eta 9 --epochs 30 --model heavy.model
printf '1:2 0:1\n2:3 1:1\n2:3 0:1\n' >mixed.svm
run 0 calibrate --model heavy.model --data mixed.svm --format libsvm --label-weights --output heavy.calibrated
run 0 predict --model heavy.model --data heavy.svm --format libsvm --label-weights --top 1 --exclude known
expect 'known numbers are found' test "$(sed 's/:.*//' stdout | tr '\n' ' ')" = '2 1 '
prints 'error      0.00 %' evaluate --model heavy.model --data heavy.svm --format libsvm --label-weights
# Where labels have names, a number is none.
printf '__label__cat a\n__label__dog b\n' >animals
printf 'dog 2\n0 3\n' >by-class
fails 1 "--class-weights: by-class, line 2, column 1: '0' is the name of no label of the rows" train --data animals --class-weights by-class --estimator softmax --eta 1
# Words have no names, which would stand in their place.
printf 'x\ny\n' >towns
fails 1 "towns has names for labels that are numbers, and those of the rows are words, the first 'cat'" train --data animals --label-names towns --estimator softmax --eta 1
# What a model's training kept of a row's labels is said where rows are read like its rows.
printf '__label__a __label__b x\n__label__b y\n' >pair.words
run 0 train --data pair.words --labels first --estimator softmax --eta 1 --model pair.model
prints 'the first label of a row counts, as in training; --labels all counts all' evaluate --model pair.model --data pair.words
run 0 evaluate --model pair.model --data pair.words --labels all
expect 'all are asked for' test "$(grep -c 'as in training' stdout)" -eq 0
run 0 convert --data pair.words --like pair.model --to cache --output pair.cache
says stderr 'the first label of a row is kept, as in the training of pair.model; --labels all keeps all'
run 0 convert --data pair.words --like pair.model --labels all --to cache --output pair.cache
expect 'nothing is left out' test ! -s stderr
# A label has one weight. Labels may share a name, as titles of products do.
printf 'cat 2\n dog 3\ncat 4\n' >by-class
fails 1 "--class-weights: by-class, line 3, column 1: 'cat' has a weight already" train --data animals --class-weights by-class --estimator softmax --eta 1
printf 'zero\none\nzero\n' >towns
printf '3 3 3\n0 0:1\n1 1:1\n2 2:1\n' >named.xc
run 0 train --data named.xc --label-names towns --estimator softmax --eta 1 --epochs 20 --model towns.model
run 0 predict --model towns.model --data named.xc --top 1
expect 'each label by its name' test "$(cut -d: -f1 stdout | paste -sd' ')" = 'zero one zero'
# Numbers with names are called by the numbers.
printf 'zero\none\ntwo\n' >towns
printf '2 3 3\n1 0:1\n2 1:1\n' >named.xc
printf '2 5\n' >by-class
run 0 train --data named.xc --label-names towns --class-weights by-class --estimator softmax --eta 1 --epochs 1
printf 'two 5\n' >by-class
run 1 train --data named.xc --label-names towns --class-weights by-class --estimator softmax --eta 1 --epochs 1
says stderr "by-class, line 1, column 1: 'two' is no label of the rows, which are numbers with names"
fails 2 '--label-weights is for xc, libsvm, text and npz' train --data weighted.csv --format csv --label-weights --eta 1
fails 1 'the rows have weights, and this format has no place for them; set --weights-to' convert --data weighted.cache --to csv --labels first --output weighted.csv
run 1 train --data rows.xc --format xc --weights twos.not --eta 1
fails 1 '/dev/null has only 0 lines' train --data rows.xc --format xc --test rows.xc --test-weights /dev/null --eta 1
run 0 train --data train.txt --drop-empty --epochs 3 --eta 1 --model a.model
run 0 train --data train.cache --epochs 3 --eta 1 --model b.model
run 0 evaluate --model a.model --data train.cache --no-verify --json
cp stdout first
run 0 evaluate --model b.model --data train.cache --json
expect 'the same model from a cache' test "$(grep -o '"log_loss":[^,]*' first)" = "$(grep -o '"log_loss":[^,]*' stdout)"
run 0 convert --data words.txt --to cache --output words.cache --word-ngrams 2 --buckets 50
run 0 train --data words.cache --epochs 2 --eta 1 --model words.model
prints 'sport:' predict --model words.model --data words.txt --top 1
fails 1 'the classes have names' convert --data words.cache --to xc --output words.xc
run 0 convert --data words.cache --to xc --output words.xc --names-to words.names
says words.names vote
# Parts: together they are the rows, once each; the same with the same seed.
prints 'part.xc: 226 rows' convert --data train.txt --labels first --drop --to xc --output part.xc --split 0.75 --rest rest.xc
says stdout 'rest.xc: 75 rows'
tail -q -n +2 part.xc rest.xc | sort >parts.sorted
tail -n +2 train.xc | sort >rows.sorted
expect 'the parts are the rows' cmp -s parts.sorted rows.sorted
cp rest.xc rest.first
run 0 convert --data train.txt --labels first --drop --to xc --output part.xc --split 0.75 --rest rest.xc
expect 'the same split' cmp -s rest.xc rest.first
run 0 convert --data train.txt --labels first --drop --to xc --output part.xc --split 0.75 --rest rest.xc --seed 2
expect 'another seed, another split' test "$(cmp -s rest.xc rest.first; echo $?)" -eq 1
run 0 convert --data train.xc --to xc --output mixed.xc --shuffle
expect 'another order' test "$(cmp -s train.xc mixed.xc; echo $?)" -eq 1
tail -n +2 mixed.xc | sort >parts.sorted
expect 'of the same rows' cmp -s parts.sorted rows.sorted
run 0 train --data part.xc --test rest.xc --epochs 1 --eta 1
refuse 2 'go together' 'convert --data train.txt --to xc --output x --split 0.5'
refuse 2 'go together' 'convert --data train.txt --to xc --output x --rest y'
rm -rf x here && ln -s . here
refuse 2 '--output: x is the file of --rest' 'convert --data train.txt --to xc --output x --split 0.5 --rest x'
refuse 2 '--output: ./x is the file of --rest' 'convert --data train.txt --to xc --output ./x --split 0.5 --rest here/x'
refuse 2 '--labels-to: ./x is the file of --output' 'convert --data train.txt --to npy --output x --labels-to ./x'
refuse 2 '--names-to: ./x is the file of --output' 'convert --data words.cache --to xc --output x --names-to ./x'
fails 2 'is the file of --rest' convert --data train.txt --labels first --drop --to xc --output part.xc --split 0.5 --rest ./part.xc
rm -f y.xc && ln -sf y.xc link.xc
refuse 2 '--output: y.xc is the file of --rest' 'convert --data train.txt --to xc --output y.xc --split 0.5 --rest link.xc'
refuse 2 "--split: '0' is out of range" 'convert --data train.txt --to xc --output x --split 0 --rest y'
refuse 1 'train.txt: --split: a fraction of 0.0001 gives 0 of 303 rows; both parts must get at least one' 'convert --data train.txt --to xc --output x --split 0.0001 --rest y'
refuse 2 'split first, then convert' 'convert --data train.txt --labels first --drop --to npy --labels-to z --output x --split 0.5 --rest y'
fails 2 'xc, libsvm, csv, tsv, npy or cache is accepted' convert --data train.txt --to text --output x
# Options of formats that the files do not have: refused, before anything is read where --format says so.
refuse 2 '--min-count is for text, and --format is xc' 'train --data train.txt --format xc --min-count 2'
refuse 2 '--index-base is for libsvm, and --format is csv' 'train --data dense.csv --format csv --index-base 1'
refuse 2 '--label-column is for csv, tsv and npy, and --format is libsvm' 'predict --model model --data small.svm --format libsvm --label-column y'
refuse 2 '--labels-from is for xc, npy and npz, and --format is libsvm' 'evaluate --model model --data test.txt --format libsvm --labels-from y'
refuse 2 '--test-labels-from is for xc, npy and npz, and --format is csv' 'train --data train.txt --test test.txt --format csv --test-labels-from y'
refuse 2 '--no-verify is for cache, and --format is xc' 'info train.txt --format xc --no-verify'
refuse 2 '--spool is for every format but cache, which is mapped, and --format is cache' \
    'convert --data train.cache --format cache --spool . --to xc --output x'
for option in '--label-prefix x' '--word-ngrams 2' '--min-chars 2 --max-chars 3' '--max-chars 3' '--word-ngrams 2 --buckets 9'; do
    refuse 1 'is for text, and the rows read are xc' "info train.txt $option"
    refuse 1 'is for text, and the rows read are xc' "train --estimator implicit --data train.txt --test test.txt $option"
done
refuse 1 '--index-base is for libsvm, and the rows read are xc' 'predict --model model --data test.txt --index-base 0'
refuse 1 '--no-verify is for cache, and the rows read are xc' 'evaluate --model model --data test.txt --no-verify'
refuse 1 '--label-column is for csv, tsv and npy, and the rows read are xc and cache' \
    'train --estimator implicit --data train.cache --test test.txt --label-column y'
refuse 1 '--spool is for every format but cache' 'convert --data train.cache --spool . --to xc --output x'
refuse 1 '--index-base is for libsvm, and model is a model' 'info model --index-base 1'
refuse 1 '--format is for data, and model is a model' 'info model --format xc'
refuse 2 'there are none without --word-ngrams or --max-chars' 'info words.txt --buckets 9'
# One of several files is enough.
run 0 train --estimator implicit --data train.cache --no-verify --test test.txt --epochs 1 --eta 1 --model mixed.model
run 0 evaluate --model mixed.model --data test.txt --no-verify --ranks --known train.cache
printf 'kind,a,b\n1,0.5,1\n2,1,0.5\n' >kinds.csv
run 0 convert --data kinds.csv --label-column kind --to cache --output kinds.cache
run 0 train --estimator softmax --data kinds.cache --test kinds.csv --label-column kind --epochs 1 --eta 1
run 0 convert --data kinds.cache --to cache --output again.cache
printf 'PK' >not.cache
fails 1 'safetensors' info not.cache --format cache

# The same bits for any number of threads, and with the history or without.
run 0 train --estimator implicit --data train.txt --test test.txt --transform tfidf,unit --epochs 20 --eta 3 --label-names names.txt \
    --model m2 --threads 2
expect 'the same model from two threads' cmp m1 m2
packed=train.txt
[ "$gzip" = no-gzip ] || packed=train.txt.gz
run 0 train --estimator implicit --data $packed --test test.txt --transform tfidf,unit --epochs 20 --eta 3 --label-names names.txt \
    --model m3 --threads 3
expect 'the same model from compressed data' cmp m1 m3
run 0 train --estimator implicit --data=train.txt --test=test.txt --transform=tfidf,unit --epochs=20 --eta=3 --label-names=names.txt \
    --model=m4 --seed=2
expect 'another model from another seed' test "$(cmp -s m1 m4 && echo same)" = ''
run 0 train --estimator implicit --data train.txt --epochs 3 --history h2.csv --evaluate-every 2
expect 'the last epoch is in the history' test "$(tail -n 1 h2.csv | cut -d , -f 1)" = 3
# same_measures CSV NAME...: the last line has these as its last columns, as the JSON in stdout says them.
same_measures() {
    csv=$1
    shift
    told=
    for measure in "$@"; do
        # The last of that name is that of the test rows.
        told=$told,$(sed "s/.*\"$measure\":{\"1\":\([^,]*\),\"3\":\([^,]*\),\"5\":\([^,]*\),\"10\":\([^}]*\)}.*/\1,\2,\3,\4/" stdout)
    done
    tail -n 1 "$csv" >last
    expect "the last line of $csv ends as the JSON says" test "${told#,}" = "$(rev last | cut -d , -f "1-$(($# * 4))" | rev)"
}
run 0 train --estimator implicit --data train.txt --test test.txt --epochs 1 --history h3.csv --history-measures psndcg,ndcg --json
expect 'the history has what was asked for' test "$(head -n 1 h3.csv | cut -d , -f 8-)" = \
    'test_error,ndcg_1,ndcg_3,ndcg_5,ndcg_10,psndcg_1,psndcg_3,psndcg_5,psndcg_10'
same_measures h3.csv ndcg psndcg
# Where the estimator takes one label the first of several is kept, which is said; the model is that of --labels first.
some=$(awk '{ n += split($1, all, ",") - 1 } END { print n }' many.txt)
run 0 train --estimator implicit --data many.txt --epochs 1 --eta 1 --model default.model
says stderr "'implicit' takes one label a row: $some of $((some + $(wc -l <many.txt))) labels are not used; --estimator one-vs-all"
prints "\"labels_unused\":$some," train --estimator implicit --data many.txt --epochs 1 --eta 1 --json
run 0 train --estimator implicit --data many.txt --epochs 1 --eta 1 --labels first --model first.model
expect 'nothing is said of what was given' test ! -s stderr
expect 'the first label by default' cmp -s default.model first.model
printf '__label__b __label__a x y\n__label__c __label__d y z\n__label__a __label__c z x\n' >labels.txt
run 0 train --estimator implicit --set negatives=1 --data labels.txt --epochs 1 --eta 1 --model default.model
run 0 train --estimator implicit --set negatives=1 --data labels.txt --epochs 1 --eta 1 --labels first --model first.model
expect 'the first label by default, of text' cmp -s default.model first.model
# Where no estimator is named all labels count, whatever trains then.
# shellcheck disable=SC2086
for flags in '' '--hidden 2 --eta 1' '--geometry euclidean --eta 1' '--optimizer lbfgs' '--method label-tree'; do
    prints '4 classes (all labels of each row)' train --data labels.txt $flags --model default.model
    expect "nothing is left out, with '$flags'" test "$(grep -c 'not used' stderr)" -eq 0
    run 0 train --data labels.txt $flags --labels all --model all.model || true
    expect "the model of --labels all, with '$flags'" cmp default.model all.model
    run 0 info default.model
    expect 'the model says so' grep -q 'training.labels *all$' stdout
done
# Vectors of words to start from: those of the file where it has the word, whatever is between; the length is the file's.
printf '3 2\nx 0.5 -1.5\nq 9 9\ny 2 3 \n' >words.vec
prints 'words.vec: vectors of 2 of 3 words, the others at random' train --data labels.txt --vectors words.vec --epochs 1 --eta 1e-9 --model vectors.model
says stdout 'embedding, 3 features to 2 by sum'
cat >vectors.py <<'EOF'
import json, struct, sys
file = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", file[:8])[0]
head = json.loads(file[8:8 + size])
first, last = head["embedding"]["data_offsets"]
numbers = struct.unpack("<6f", file[8 + size + first:8 + size + last])
first, last = head["vocabulary"]["data_offsets"]
words = file[8 + size + first:8 + size + last].decode().split()
have = {word: numbers[2 * i:2 * i + 2] for i, word in enumerate(words)}
near = lambda a, b: all(abs(x - y) < 1e-6 for x, y in zip(a, b))
sys.exit(not (near(have["x"], (0.5, -1.5)) and near(have["y"], (2, 3)) and max(map(abs, have["z"])) < 2))
EOF
! command -v python3 >/dev/null || expect 'the vectors of the file' python3 vectors.py vectors.model
printf 'x 0.5 -1.5\ny 2 3\n' >bare.vec
prints '"vectors_found":2,' train --data labels.txt --vectors bare.vec --epochs 1 --eta 1e-9 --json
for file in words bare; do
    (printf '\357\273\277'; cat $file.vec) >marked.vec
    prints '"vectors_found":2,' train --data labels.txt --vectors marked.vec --epochs 1 --eta 1e-9 --json
done
fails 2 '--hidden 3: the vectors of words.vec have a length of 2' train --data labels.txt --vectors words.vec --hidden 3 --eta 1
printf '2 2\nx 0.5 one\n' >bad.vec
fails 1 "bad.vec, line 2: number 2 of the vector is 'one'" train --data labels.txt --vectors bad.vec --eta 1
fails 1 'the features of train.txt are no words' train --data train.txt --vectors words.vec --eta 1
printf '3 2\nx 0.5 -1.5\ny 2 3\n' >cut.vec
fails 1 'cut.vec: is cut short: vectors of 2 words, and line 1 says 3' train --data labels.txt --vectors cut.vec --eta 1
printf '1 2\nother 1 2\n' >other.vec
fails 1 'other.vec: none of its words is among the 3 of labels.txt' train --data labels.txt --vectors other.vec --eta 1
prints '"method":"sampled-softmax"' train --data labels.txt --hidden 2 --eta 1 --json
says stdout '"labels_unused":0,'
# Several labels a row: all measures, the last line being what the run ends with.
run 0 train --estimator one-vs-all --labels all --data many.txt --test many.txt --epochs 3 --eta 1 --history h3.csv --json
expect 'rows of several labels have all measures' test "$(head -n 1 h3.csv | awk -F, '{ print NF }')" -eq 24
expect 'no measure is empty' test "$(grep -c ',,\|,$' h3.csv)" -eq 0
same_measures h3.csv precision ndcg psp psndcg
prints 'PSnDCG@1 0' train --estimator one-vs-all --labels all --data many.txt --test many.txt --epochs 1 --eta 1
expect 'unknown figures are empty' test "$(tail -n 1 h2.csv | cut -d , -f 7-)" = ',,,,,'

# Rows without a feature stay, and so do classes that have no others; every class is predicted, by a number.
awk 'BEGIN { for (i = 0; i < 96; i++) print i % 8 (i % 8 == 7 || i % 24 == 3 ? "" : " " i % 8 + 1 ":1 9:0.5") }' >some-empty.svm
awk 'BEGIN { print "label,a,b"; for (i = 0; i < 40; i++) print i % 4 "," (i % 4 == 3 ? "0,0" : i % 4 + 1 "," i % 3) }' >some-empty.csv
for options in '--estimator softmax --eta 0.5' '--estimator implicit --eta 0.5 --bias no' '--method label-tree' \
    '--estimator softmax --optimizer lbfgs' '--estimator softmax --hidden 3 --eta 0.1' \
    '--estimator softmax --transform tfidf,unit,truncate=3 --eta 0.5' '--estimator softmax --geometry euclidean --eta 0.1'; do
    for data in svm csv; do
        # shellcheck disable=SC2086
        run 0 train --data some-empty.$data $options --model empty.model
        run 0 predict --data some-empty.$data --model empty.model --top 8
        expect "all classes of $data: $options" test "$(awk -F '\t' '{ print NF }' stdout | sort -u)" = \
            "$([ $data = svm ] && echo 8 || echo 4)"
        expect "numbers of $data: $options" test "$(grep -c -i 'nan\|inf' stdout)" -eq 0
    done
done
prints '96 rows, 9 features, 8 classes' train --data some-empty.svm --estimator softmax --eta 0.5 --model empty.model
says stdout '16 rows without a feature, from which the bias alone learns'
run 0 predict --data some-empty.svm --model empty.model --top 1
expect 'what rows without a feature are' test "$(sed -n 8p stdout | cut -d: -f1)" = 7
prints '"examples":96,"empty_rows":16,' train --data some-empty.svm --estimator softmax --eta 0.5 --bias no --json
prints '80 rows, 9 features, 7 classes' train --data some-empty.svm --estimator softmax --eta 0.5 --drop-empty
says stdout 'dropped: 0 rows without a label or of weight 0, 16 without a feature'
rm -f empty.model some-empty.svm some-empty.csv

# Labels of few rows: a row keeps its others, and one that has none is not trained on.
awk 'BEGIN {
    for (i = 0; i < 30; i++) {
        k = i % 3 + 1
        print k (i < 2 ? ",7" : i == 2 ? ",8" : "") " " k ":1 9:0.5"
    }
    print "7 4:1"
    print "9 4:1\n9 5:1"
}' >rare.svm
grep -v '^9' rare.svm | sed 's/,7//; s/,8//; /^7/d' >common.svm
for how in '--estimator one-vs-all --eta 1 --epochs 3' '--estimator softmax --optimizer lbfgs --ridge 0.1' \
    '--method label-tree' ''; do
    prints ': 30 rows, ' train --data rare.svm --min-label-count 4 $how --model rare.model
    says stdout ', 3 classes ('
    says stdout 'left out: 3 labels of fewer than 4 rows, and 3 rows that had no others'
done
prints '"classes":3,' train --data rare.svm --min-label-count 4 --estimator one-vs-all --eta 1 --epochs 3 --model rare.model --json
says stdout '"rare_labels":3,"rare_label_rows":3,'
run 0 predict --model rare.model --data common.svm --top 3
mv stdout rare.answers
run 0 train --data common.svm --estimator one-vs-all --eta 1 --epochs 3 --model common.model
run 0 predict --model common.model --data common.svm --top 3
expect 'as without those labels' cmp rare.answers stdout
prints 'left out: 2 labels of fewer than 3 rows, and 2 rows that had no others' train --data rare.svm --min-label-count 3 --estimator one-vs-all --eta 1 --epochs 1
prints ', 6 classes (' train --data rare.svm --min-label-count 1 --estimator one-vs-all --eta 1 --epochs 1
fails 1 'rare.svm: no label has 11 rows or more, so that none would be left; the most frequent has 10' train --data rare.svm --min-label-count 11 --estimator one-vs-all --eta 1
# What a model knows stays, what is new to it must be frequent enough.
printf '1 1:1\n20 2:1\n30 3:1\n30 3:1\n' >more.svm
prints '"new_classes":1,' train --data more.svm --warm-start common.model --min-label-count 2 --estimator one-vs-all --eta 1 --epochs 1 --json
says stdout '"examples":3,'
says stdout '"rare_labels":1,"rare_label_rows":1,'
run 0 convert --data rare.svm --min-label-count 4 --drop --to libsvm --output kept.svm
says stderr '3 labels of fewer than 4 rows are left out'
says stderr '3 rows without a label or a feature are left out'
run 0 convert --data common.svm --to libsvm --output common.again
expect 'rows as without those labels' cmp kept.svm common.again
rm -f rare.* common.* more.svm kept.svm

# Labels keep their spelling, and are found by it.
printf 'label,x\n01,0.5\n1,1.5\n01,0.4\n1,1.6\n01234,-3\n' >spelled.csv
prints '5 rows, 1 features, 3 classes' train --data spelled.csv --estimator softmax --eta 1 --epochs 50 --model spelled.model
run 0 predict --data spelled.csv --model spelled.model --top 1
expect 'names' test "$(cut -d: -f1 stdout | tr '\n' ' ')" = '01 1 01 1 01234 '
printf 'label,x\n1,1.5\n' >one.csv
prints '"error":0,' evaluate --data one.csv --model spelled.model --json
printf 'label,x\na,1\n"b\nc",2\n' >lines.csv
fails 1 'lines.csv, line 3, column 1: a line end in a label' train --data lines.csv
# An answer for each line to predict.
printf '10 1:1\n\n20 5:1\n  \n\n' >blank.svm
run 0 predict --data blank.svm --model model
expect 'five lines, five answers' test "$(wc -l <stdout)" -eq 5
printf 'x\n0.5\n\n1.5\n' >blank.csv
run 0 predict --data blank.csv --format csv --model spelled.model --top 1
expect 'three rows, three answers' test "$(cut -d: -f1 stdout | tr '\n' ' ' | cut -d' ' -f1,3)" = '01 1'
rm -f spelled.* one.csv lines.csv blank.*

# Pipes: written forward, with the bytes of files; waiting for a reader ends with the first signal.
mkfifo pipe
make_pipes() {
    echo 'train --data train.txt --estimator implicit --eta 1 --epochs 1 --model'
    echo 'train --data train.txt --estimator implicit --eta 1 --epochs 1 --history'
    echo 'train --data train.txt --estimator implicit --eta 1 --epochs 1 --checkpoint'
    echo 'calibrate --model model --data test.txt --output'
    echo 'index --model model --output'
    echo 'prune --keep 2 --model model --output'
    echo 'convert --data train.txt --to cache --output'
    echo 'convert --data train.txt --to xc --output'
}
make_pipes | while read -r command; do
    # shellcheck disable=SC2086
    "$xsoftmax" $command pipe >/dev/null 2>stderr &
    sleep 0.3
    kill -TERM $!
    wait $! && echo "$command"
done >not-ended
expect 'a signal ends the wait for a reader' test ! -s not-ended
make_pipes | grep -v 'checkpoint\|history' | while read -r command; do
    # shellcheck disable=SC2086
    "$xsoftmax" $command whole.file >/dev/null || echo "$command"
    # shellcheck disable=SC2086
    "$xsoftmax" $command pipe >/dev/null 2>stderr &
    cmp -s pipe whole.file || echo "$command: other bytes"
    wait $! || echo "$command: failed"
    # shellcheck disable=SC2086
    "$xsoftmax" $command /dev/stdout | head -c "$(wc -c <whole.file)" | cmp -s - whole.file || echo "$command: /dev/stdout"
    # An output of the name - gets the bytes alone: what is said goes to standard error.
    # shellcheck disable=SC2086
    "$xsoftmax" $command - 2>stderr | cmp -s - whole.file || echo "$command: -"
    grep -q . stderr || echo "$command: says nothing"
    # In a file they stand behind what it has, and before what is written later.
    # shellcheck disable=SC2086
    (echo before && "$xsoftmax" $command - 2>stderr && echo later) >redirected
    (echo before && cat whole.file && echo later) | cmp -s - redirected || echo "$command: - to a file"
done >not-written
expect 'pipes get what files get' test ! -s not-written
expect 'the pipe is still one' test -p pipe
cat model >pipe &
prints "written by             $("$xsoftmax" --version), format 1" info pipe
prints "written by             $("$xsoftmax" --version), format 1" info train.cache
run 0 index --model model --output kind.index
prints '{"kind":"index","name":"spherical",' info kind.index --json
(cat model && cat test.txt) | "$xsoftmax" predict --model - --data - >behind
run 0 predict --model model --data test.txt
expect 'rows behind the model in a pipe' cmp -s stdout behind
# What a killed process left beside an output goes when that is written again; what a living one has stays.
dead=$(sh -c 'echo $$')
: >"left.$dead-0.new"
: >"left.$$-0.new"
: >"left.$dead-0.newer"
run 0 calibrate --model model --data test.txt --output left
expect 'what is left' test "$(ls left*)" = "$(ls "left" "left.$$-0.new" "left.$dead-0.newer")"
chmod 6755 left
run 0 calibrate --model model --data test.txt --output left
expect 'no more than rights' test "$(stat -c %a left 2>/dev/null || echo 755)" = 755
if [ "$(id -u)" -eq 0 ] && chown 12345:23456 left 2>stderr; then
    chmod 640 left
    run 0 calibrate --model model --data test.txt --output left
    expect 'owner and group stay' test "$(stat -c %u:%g:%a left)" = 12345:23456:640
    run 0 index --model model --output left
    expect 'of the library, too' test "$(stat -c %u:%g:%a left)" = 12345:23456:640
fi
mkdir kept
: >"kept/xsoftmax.$dead-0.new"
: >"kept/xsoftmax.$dead-0.new.$dead-0.new"
TMPDIR=kept "$xsoftmax" calibrate --model model --data test.txt --output - >left 2>stderr
expect 'nor is anything of standard output' test -s left -a -z "$(ls kept)"
rm -rf pipe kept left* whole.file not-ended not-written

# JSON: the members that are promised, in their order, and nothing else.
number='-\{0,1\}[0-9][0-9.e+-]*'
ranks="{\"1\":$number,\"3\":$number,\"5\":$number,\"10\":$number}"
run 0 train --data train.txt --test test.txt --json --epochs 2 --estimator ove --set negatives=2 --batch 4 --eta 1 --evaluate-train all
expect 'one line of JSON' test "$(wc -l <stdout)" -eq 1
expect 'nothing on standard error' test ! -s stderr
expect 'the JSON of train' grep -q "^{\"method\":\"ove\",\"estimator\":\"ove\",\"examples\":302,\"empty_rows\":1,\"features\":20,\"classes\":5,\"labels_unused\":0,\"rare_labels\":0,\"rare_label_rows\":0,\"hidden\":0,\"geometry\":\"linear\",\
\"unseen_test_labels\":0,\"epochs\":2,\"steps\":152,\"eta\":1,\"eta_tried\":null,\"tune_seconds\":null,\"restarts\":0,\"choice\":null,\"choice_seconds\":0,\
\"train_seconds\":$number,\"steps_per_second\":$number,\
\"peak_bytes\":[1-9][0-9]*,\"model_bytes\":null,\"weight_bytes\":400,\"prediction_seconds\":$number,\"temperature\":1,\"stopped\":null,\"train\":{\"log_loss\":$number,\"error\":$number,\"rows\":302},\
\"test\":{\"log_loss\":$number,\"error\":$number,\"rows\":[1-9][0-9]*,\
\"precision\":$ranks,\"ndcg\":$ranks,\"psp\":$ranks,\"psndcg\":$ranks,\"recall\":$ranks,\"hits\":$ranks,\"mrr\":$ranks,\"calibration_error\":$number}}\$" stdout
run 0 train --estimator implicit --data train.txt --json --epochs 1 --model seen
run 0 train --estimator implicit --data train.txt --json --epochs 1 --model unseen --no-evaluate
expect 'without evaluation' grep -q '"train":{"log_loss":null,"error":null,"rows":null},"test":null}$' stdout
expect 'the size of the file' grep -q "\"model_bytes\":$(wc -c <unseen)," stdout
expect 'the same model without evaluation' cmp -s seen unseen
run 0 train --estimator implicit --data train.txt --epochs 1 --no-evaluate
expect 'no figures' test "$(grep -c 'log-loss' stdout)" -eq 0
# --dry-run: the shape of the rows, and what each way needs, from the sizes alone; it writes nothing.
awk 'BEGIN { print 4000, 2000, 3000; for (i = 0; i < 4000; i++) print i % 3000 " " i % 1000 ":1 " 1000 + i % 7 ":2" }' >wide.txt
run 0 train --data wide.txt --dry-run --json --model never.model --hidden 16
expect 'the shape' grep -q '^{"examples":4000,"features":2000,"classes":3000,"values":8000,"labels":4000,"rows_bytes":[0-9]*,' stdout
# Numbers: 3000 x 2001 of the linear model, 16 x (3000 + 2000) + 3000 of the other.
expect 'a linear model' grep -q '{"model":"linear","hidden":0,"optimizer":"sgd","model_bytes":24012000,' stdout
expect 'an embedding model' grep -q '{"model":"embedding","hidden":16,"optimizer":"adagrad","model_bytes":332000,' stdout
# A class has its feature below 1000, and one above in every row but the first 1000's, which have two: 7000 pairs.
expect 'a label tree' grep -q '{"model":"label tree","hidden":0,"optimizer":null,"model_bytes":364693,' stdout
expect 'no model' test ! -e never.model
needed=$(sed 's/.*"linear","hidden":0,"optimizer":"adagrad","model_bytes":[0-9]*,"train_bytes":\([0-9]*\),.*/\1/' stdout)
run 0 train --data wide.txt --estimator sampled-softmax --optimizer adagrad --eta 1 --epochs 1 --evaluate-train no --json
peak=$(sed 's/.*"peak_bytes":\([0-9]*\),.*/\1/' stdout)
expect "no more is said to be needed ($needed) than is ($peak)" test "$needed" -le "$peak" -a "$needed" -gt 48000000
prints 'data       wide.txt: 4,000 rows, 2,000 features, 3,000 classes' train --data wide.txt --dry-run
expect 'in words' grep -q 'linear, --optimizer adagrad  *22[.]9 MiB  *46[.]0 MiB$' stdout
says stdout 'embedding, --hidden 256 --optimizer sgd'
fails 1 never.txt train --data never.txt --dry-run

# Training rows: a sample by default, whose size the report says; all; none.
{ echo '40000 20 60' && make_rows 40000 7; } >large.txt
run 0 train --estimator implicit --data large.txt --epochs 1 --eta 1 --json
rows=$(sed 's/.*"train":{[^}]*"rows":\([0-9]*\)}.*/\1/' stdout)
expect "a sample, of $rows rows" test "$rows" -ge 128 -a "$rows" -le 40000
run 0 train --estimator implicit --data large.txt --epochs 1 --eta 1 --json --evaluate-train all --model all.model
expect 'all rows' grep -q '"train":{[^}]*"rows":40000}' stdout
run 0 evaluate --model all.model --data large.txt --json
all=$(sed 's/.*"test":{"log_loss":\([^,]*\),.*/\1/' stdout)
prints "\"train\":{\"log_loss\":$all," train --estimator implicit --data large.txt --epochs 1 --eta 1 --json --evaluate-train all --threads 1
run 0 train --estimator implicit --data large.txt --test test.txt --epochs 1 --eta 1 --json --evaluate-train no --history no.csv
expect 'no training rows' grep -q '"train":{"log_loss":null,"error":null,"rows":null},"test":{"log_loss":[0-9]' stdout
expect 'nor in the history' test "$(sed 1d no.csv | cut -d , -f 5,6)" = ,
run 0 train --estimator implicit --data large.txt --epochs 2 --eta 1 --history some.csv
expect 'a sample in the history' test "$(cut -d , -f 5,6 some.csv | grep -c '[0-9],[0-9]')" -eq 2
run 0 train --estimator implicit --data train.txt --json --epochs 1
expect 'without test rows' grep -q '"unseen_test_labels":null,.*"test":null}$' stdout
prints '"unseen_test_labels":1,' train --estimator implicit --data train.txt --test strange.txt --json --epochs 1

# All rows at once.
for estimator in softmax bouchard ove; do
    set --
    [ "$estimator" != ove ] || set -- --set negatives=all --set tight-classes=0,2
    run 0 train --data train.txt --test test.txt --optimizer lbfgs --estimator $estimator "$@" --ridge 1 --tolerance 1e-8 \
        --model full --history full.csv --evaluate-every 4 --json --threads 1
    expect "the JSON of lbfgs and $estimator" grep -q "^{\"method\":\"$estimator\",\"estimator\":\"$estimator\",.*\
\"iterations\":[1-9][0-9]*,\"evaluations\":[1-9][0-9]*,\"objective\":$number,\"gradient_norm\":$number,\
\"end\":\"[a-z]*\",\"epochs\":[1-9][0-9]*,\"steps\":.*\"train\":{\"log_loss\":$number" stdout
    iterations=$(sed 's/.*"iterations":\([0-9]*\).*/\1/' stdout)
    expect 'the last iteration is in the history' test "$(tail -n 1 full.csv | cut -d , -f 1)" = "$iterations"
    expect 'every fourth is' test "$(sed -n 2p full.csv | cut -d , -f 1)" = 4
    run 0 train --data train.txt --test test.txt --optimizer lbfgs --estimator $estimator "$@" --ridge 1 --tolerance 1e-8 \
        --model full2 --threads 3
    says stdout "$estimator by lbfgs, $iterations iterations"
    expect 'the same model from three threads' cmp full full2
    run 0 evaluate --model full --data test.txt
done
run 0 train --data train.txt --optimizer adagrad --estimator ove --set optimizer.initial=0.5 --epochs 2 --model ada.model
prints 'training.optimizer.initial' info ada.model
prints '"iterations":2,' train --data train.txt --optimizer lbfgs --estimator softmax --iterations 2 --json
says stdout '"end":"iterations"'

# The learning rate, chosen: said on standard error, in the JSON and in the model.
run 0 train --estimator implicit --data train.txt --json --epochs 20 --model auto.model
trial="{\"eta\":$number,\"round\":[123],\"rows\":[0-9]*,\"epochs\":[0-9]*,\"objective\":$number,\
\"outcome\":\"[a-z]*\"}"
expect 'the JSON of a rate chosen' \
    grep -q "\"steps\":6040,\"eta\":$number,\"eta_tried\":\[$trial\(,$trial\)*\],\"tune_seconds\":$number,\"restarts\":0,\"choice\":null,\"choice_seconds\":[0-9]*[.e][0-9.e-]*,\"train" stdout
says stderr 'learning rate '
expect 'a line for each rate' test "$(wc -l <stderr)" -ge 9
rate=$(sed 's/.*"eta":\([^,]*\),"eta_tried".*/\1/' stdout)
says stderr "learning rate $rate, chosen in "
run 0 info auto.model
expect 'the rate in the model' grep -q "training.eta *$rate\$" stdout
run 0 train --estimator implicit --data train.txt --epochs 20 --model given.model --eta "$rate"
expect 'nothing is chosen when a rate is given' test ! -s stderr
says stdout "eta $rate, as given"
expect 'the model of the same rate, given' cmp auto.model given.model
run 0 train --estimator implicit --data train.txt --epochs 20 --model again.model --eta auto --threads 1
expect 'the same choice on one thread' cmp auto.model again.model
says stdout "eta $rate, chosen in "

# Two rows that contradict each other and are huge, which no trial sees: the run starts again at a tenth of the rate.
{ echo '1002 20 60' && make_rows 1000 7 && printf '10 1:1e7\n20 1:1e7\n'; } >outliers.txt
run 0 train --data outliers.txt --epochs 3 --estimator sampled-softmax --history again.csv --model again.model --json
rate=$(sed 's/.*"eta":\([^,]*\),"eta_tried".*/\1/' stdout)
says stdout '"restarts":1,'
says stderr "starting again with $rate"
expect 'the history of the last start alone' test "$(wc -l <again.csv)" -eq 4
expect 'at its rate' test "$(sed -n 2p again.csv | cut -d , -f 4)" = "$rate"
run 0 info again.model
expect 'and in the model' grep -q "training.eta *$rate\$" stdout
run 0 train --data outliers.txt --epochs 3 --estimator sampled-softmax --eta "$rate" --model given.model
expect 'the model of that rate, given' cmp again.model given.model
fails 1 'training diverged' train --data outliers.txt --epochs 3 --estimator sampled-softmax --eta "${rate}0"

# Nothing said: everything is chosen, told of in three lines, a line for each way and in the JSON, and the same on any
# number of threads.
run 0 train --data train.txt --test test.txt --json --model default.model
expect 'at most a screen' test "$(wc -l <stderr)" -le 20
says stderr 'chosen     '
says stderr ' rows in '
says stderr ' others: calibrated log-loss '
says stderr ", of the classes' frequencies "
expect 'a line for each way' test "$(grep -c '^           [a-z-]* by [a-z]* .* on [0-9,]* rows' stderr)" -ge 2
expect 'the chosen one' test "$(grep -c ', chosen$' stderr)" -eq 1
expect 'the choice in the JSON' grep -q "\"choice\":{\"why\":\[\"[^]]*\],\"method\":\"[a-z-]*\",\"optimizer\":[a-z\"]*,\
\"transform\":\"[a-z,]*\",\"ridge\":$number,\
\"factor\":\($number\|null\),\"pairs\":0,\"temperature\":$number,\"held\":[1-9][0-9]*,\"held_loss\":$number,\"held_precision\":$number,\"predicted\":$number,\
\"prior\":$number,\"bytes\":[0-9]*,\"rounds\":[0-9]*,\"grouped\":0,\"measure\":\"log-loss\",\"seconds\":$number,\
\"trials\":\[{\"estimator\":\"[a-z-]*\",\"optimizer\":[a-z\"]*,\"transform\":\"unit\",\"eta\":\($number\|null\),\"ridge\":0,\"hidden\":0,\"trees\":[0-9]*,\
\"rows\":[0-9]*,\"part\":1,\"epochs\":[0-9]*,\"pairs\":0,\"temperature\":$number,\"loss\":$number,\"predicted\":\($number\|null\),\"precision\":$number,\"bytes\":[0-9]*,\
\"outcome\":\"[a-z]*\",\"seconds\":$number}" stdout
expect 'a good model' grep -q '"test":{"log_loss":[0-9.e-]*,"error":0.0' stdout

run 0 train --data train.txt --threads 3 --model default3.model
expect 'the same choice on three threads' cmp default.model default3.model
prints 'standard' info default.model

# What is given stays, and giving what was chosen gives the same model.
run 0 train --data train.txt --epochs 3 --optimizer sgd --batch 1 --json --model chosen.model
rate=$(sed 's/.*"eta":\([^,]*\),"eta_tried".*/\1/' stdout)
factor=$(sed 's/.*"factor":\([^,]*\),.*/\1/' stdout)
ridge=$(sed 's/.*"optimizer":"sgd","transform":"[a-z,]*","ridge":\([^,]*\),"factor".*/\1/' stdout)
transform=$(sed 's/.*"optimizer":"sgd","transform":"\([a-z,]*\)","ridge".*/\1/' stdout)
temperature=$(sed 's/.*"pairs":0,"temperature":\([^,]*\),"held".*/\1/' stdout)
says stdout '"epochs":3,"steps":906,'
run 0 train --data train.txt --estimator softmax --transform "$transform" --epochs 3 --eta "$rate" --ridge "$ridge" \
    --schedule "step:$factor" --temperature "$temperature" --model told.model
expect 'the model of the same settings, given' cmp chosen.model told.model
run 0 train --data train.txt --optimizer lbfgs --ridge 0.5
says stderr 'softmax, by lbfgs'
says stderr 'ridge 0.5, '
run 0 train --data train.txt --eta 0.3 --batch 4 --schedule constant
says stderr 'rate 0.3, '
says stderr 'batches of 4, '
says stdout 'eta 0.3, as given'
run 0 train --data several.txt
says stderr '1 - nDCG@5'
run 0 train --data dense.csv
says stderr 'nothing was tried: too few rows'
expect 'no word about columns that are alike' test "$(grep -c 'values of ' stdout)" -eq 0
printf 'label,a,b\n1,1.5,100\n2,1,200\n1,2,150\n' >unlike.csv
for how in '--estimator softmax' '--method label-tree' '--method class-means'; do
    prints 'values of column b are ' train --data unlike.csv $how
    says stdout 'transform standard makes them alike'
    run 0 train --data unlike.csv $how --transform standard
    expect "no word about $how after a transform" test "$(grep -c 'values of ' stdout)" -eq 0
done
refuse 2 '--calibrate FILE finds it by its rows' 'train --data train.txt --temperature 2 --calibrate test.txt'
refuse 2 '--temperature means nothing to' 'train --data train.txt --temperature 2 --method label-tree'
refuse 2 'are probabilities as they are' 'train --data train.txt --temperature 2 --estimator hierarchical'
prints 'worse than the frequencies of the classes, whose log-loss is 0.6365' train --data dense.csv --bias only --estimator softmax --eta 1e3

# A time budget ends what would take hours.
run 0 train --data train.txt --time-budget 0.3 --estimator implicit --epochs 100000000 --model budget.model
says stderr 'as given'
says stderr 'in the budget of 0.3 s:'
says stderr 'the time budget of 0.30 s ended training after '
run 0 info budget.model
prints '"budget_seconds":100,"gave_up":"nothing"}' train --data train.txt --time-budget 100 --json

# The bias alone, whatever the features: the model takes new rows as they are.
prints '5 classes x 0 features with bias' train --data train.txt --test test.txt --bias only --estimator softmax --optimizer lbfgs --model bias.model
run 0 evaluate --model bias.model --data test.txt
run 0 predict --model bias.model --data test.txt --top 2
expect 'every row has the same answer' test "$(sort -u stdout | wc -l)" -eq 1
prints '"features":0,' train --estimator implicit --data train.txt --bias only --epochs 2 --json

# Rows without a first line are taken as the training file was: its first feature has the index 0.
printf '2 3 2\n0 0:1 1:1\n1 2:1\n' >zero.txt
run 0 train --data zero.txt --estimator softmax --epochs 20 --bias no --model zero.model
printf '0 1:1\n1 2:1\n' >rest.txt
run 0 predict --model zero.model --data rest.txt --top 1
[ "$(cut -d: -f1 stdout | tr '\n' ' ')" = '0 1 ' ] || wrong "predict does not keep the first index: $(cat stdout)"

# Other data, other settings.
prints '3 rows, 2 features, 2 classes' train --data dense.csv --estimator softmax --batch 3 --bias no
run 0 train --data dense.tsv --label-column kind --estimator softmax
prints '2 rows, 3 features, 2 classes' train --data small.svm --format libsvm --index-base 0 --estimator softmax
run 0 train --estimator implicit --data train.txt --labels smallest --schedule constant --order file --ridge 0.1
run 0 train --data train.txt --schedule inverse --estimator umax
prints '9 features' train --data train.txt --schedule sqrt --transform truncate=9 --estimator softmax --model cut.model
run 0 evaluate --model cut.model --data test.txt
run 0 train --data train.txt --test test.txt --transform tfidf,unit,products=2 --method label-tree --model products.model
loss=$(sed -n 's/^test *log-loss \([0-9.]*\),.*/\1/p' stdout)
[ -n "$loss" ] || wrong "no log-loss of the test rows in stdout"
prints 'tfidf,unit,products=2' info products.model
prints "log-loss   $loss" evaluate --model products.model --data test.txt
run 0 train --data dense.csv --test dense.csv --estimator softmax --transform standard --eta 1 --model standard.model --json
sed 's/.*"test"://; s/}$//' stdout >trained
run 0 evaluate --model standard.model --data dense.csv --json --no-f1
sed 's/.*"test"://; s/}$//' stdout >evaluated
expect 'evaluate standardises as train did' cmp trained evaluated
prints '"method":"class-means","estimator":null,' train --data train.txt --test test.txt --transform unit --method class-means --model means.model --json
says stdout '"class_means_variance":'
says stdout '"weight_bytes":400,'
expect 'the time of a prediction' grep -q '"prediction_seconds":[0-9.e-]*,' stdout
sed 's/.*"test"://; s/}$//' stdout >trained
run 0 evaluate --model means.model --data test.txt --json --no-f1
sed 's/.*"test"://; s/}$//' stdout >evaluated
expect 'evaluate agrees with class means' cmp trained evaluated
prints 'start      from class means, variance ' train --data train.txt --test test.txt --transform unit --estimator softmax --optimizer lbfgs --iterations 1 --start means
run 0 train --data train.txt --transform unit --estimator implicit --eta 0.1 --epochs 1 --start means --model start.model
prints 'training.start         means' info start.model
run 0 train --data train.txt --test ./train.txt --calibrate test.txt --estimator implicit --eta 0.1 --epochs 1
says stderr 'note: --test: ./train.txt is the file of --data, so that its rows were trained on'
expect 'another file is no such file' test "$(grep -c 'file of --data' stderr)" -eq 1
run 0 train --data train.txt --method label-tree --transform none --model none.model
prints 'transform              none' info none.model
fails 1 'products takes sparse rows; these are dense' train --data dense.csv --estimator softmax --transform products=2
code=0
"$xsoftmax" train --estimator implicit --data - --epochs 1 --model m5 <train.txt >stdout 2>stderr || code=$?
expect 'training rows from standard input' test "$code" -eq 0
run 0 train --estimator implicit --data train.txt --epochs 1 --model /dev/null --history /dev/null

# A link is followed, and a file's rights stay.
mkdir real
echo old >real/m
chmod 640 real/m
ln -s real/m link
run 0 train --estimator implicit --data train.txt --epochs 1 --model link
expect 'the link is still one' test -L link
expect 'the model went where the link leads' test "$(wc -c <real/m)" -gt 100
expect 'the rights stay' test "$(stat -c %a real/m)" = 640

# --- evaluate and predict ---------------------------------------------------------------------------------------------------
# What train said about the test rows, evaluate says too: it applies the transform and keeps the labels as training did.
run 0 train --estimator implicit --data train.txt --test test.txt --transform tfidf,unit --epochs 20 --eta 3 --model m6 --json
sed 's/.*"test"://; s/}$//' stdout >trained
run 0 evaluate --model m6 --data test.txt --json --no-f1
sed 's/.*"test"://; s/}$//' stdout >evaluated
expect 'evaluate agrees with train' cmp trained evaluated
says stdout '"examples":102,'
says stdout '"unlabelled":1,'
# Of each class: rows 1 and 3 are right, 2 and 4 are not; c is never predicted, and a name is quoted.
printf '__label__a x\n__label__b y\n__label__c,"d z\n' >three.rows
run 0 train --data three.rows --estimator softmax --eta 9 --epochs 30 --model three.model
printf '__label__a x\n__label__b x\n__label__b y\n__label__c,"d y\n' >four.rows
run 0 evaluate --model three.model --data four.rows --by-class three.csv --confusions 9 --json
expect 'F1 in the JSON' grep -q '"f1":{"micro":0.5,"macro":0.3888888888888[0-9]*,"classes":3,"unseen_classes":0,"threshold":0},' stdout
says stdout '"confusions":[{"label":"b","predicted":"a","rows":1},{"label":"c,\"d","predicted":"b","rows":1}]}'
printf '%s\n' label,rows,predicted,true_positives,precision,recall,f1 '"a",1,2,1,0.5,1,0.6666666666666666' \
    '"b",2,2,1,0.5,0.5,0.5' '"c,""d",1,0,0,,0,0' >wanted.csv
expect 'the figures of each class' cmp three.csv wanted.csv
# A label that training never saw is a class of its own with an F1 of 0, as f1_score() of scikit-learn has it: 5/12 of
# the labels 0 1 7 7 and the predictions 0 1 2 0 (2/3, 1, 0 and 0), and 1/3 if the last label is 8 (one more 0).
printf '0 1:1\n1 2:1\n2 3:1\n' >seen.svm
printf '0 1:1\n1 2:1\n7 3:1\n7 1:1\n' >seven.svm
run 0 train --data seen.svm --format libsvm --estimator softmax --eta 9 --epochs 30 --model seen.model
run 0 evaluate --model seen.model --data seven.svm --format libsvm --json
expect 'F1 with an unseen label' \
    grep -q '"f1":{"micro":0.5,"macro":0.41666666666666[0-9]*,"classes":4,"unseen_classes":1,' stdout
sed 's/^7 1/8 1/' seven.svm >eight.svm
prints 'F1         micro 0.5000, macro 0.3333 over 5 classes' evaluate --model seen.model --data eight.svm --format libsvm --by-class seen.csv
says stdout '2 labels that training never saw are classes with an F1 of 0, and not in that table'
prints 'recall     @1 0.5000, ' evaluate --model three.model --data four.rows --confusions 1
says stdout 'hits       @1 0.5000, '
says stdout 'MRR        @1 0.5000, @3 0.7'
says stdout 'F1         micro 0.5000, macro 0.3889 over 3 classes; predicted is the best class of a row'
says stdout 'confusions b taken for a: 1'
run 2 evaluate --model three.model --data four.rows --by-class three.model
run 2 evaluate --model three.model --data four.rows --by-class three.csv --no-f1
# Two sure labels have a probability of their own each, and F1 is of what has one of a half.
printf '__label__a __label__b x\n__label__a __label__b x\n__label__c y\n' >sure.rows
run 0 train --data sure.rows --estimator one-vs-all --eta 5 --epochs 50 --model sure.model
prints 'probabilities          of each class by itself' info sure.model
run 0 predict --model sure.model --data sure.rows --probabilities --top 2
# shellcheck disable=SC2016
expect 'two sure labels' awk -F'[:\t]' 'NR == 1 && !($2 > .9 && $4 > .9) { exit 1 }' stdout
run 0 predict --model sure.model --data sure.rows --probabilities --threshold .5 --index exact
expect 'those above a half, by a search too' awk -F'\t' '{ n = n NF } END { exit n != "221" }' stdout
prints 'F1         micro 1.0000, macro 1.0000 over 3 classes; predicted is what has a probability of 0.5 or more' evaluate --model sure.model --data sure.rows
prints 'F1         micro 0.7500, ' evaluate --model sure.model --data sure.rows --f1-threshold 0
# A name's tabs, line ends and backslashes are escaped; JSON has it whole.
printf '10 0:1\n20 1:1\n' >odd.rows
awk 'BEGIN { for (i = 0; i < 21; i++) print i == 10 ? "a\tb\\c" : "n" i }' >odd.names
run 0 train --data odd.rows --estimator softmax --eta 1 --label-names odd.names --model odd.model
run 0 predict --model odd.model --data odd.rows --top 1
expect 'an escaped name' grep -q '^a\\tb\\\\c:[-0-9.e]*$' stdout
run 0 predict --model odd.model --data odd.rows --top 1 --json --probabilities
expect 'a name in JSON' grep -q '^{"best":\[{"label":"a\\u0009b\\\\c","probability":[0-9.e-]*}\]}$' stdout
run 0 info odd.model --json
expect 'a model in JSON' grep -q '^{"kind":"model","model":"linear, 2 classes.*"probabilities":"sum to one".*"labels":\["a\\u0009b\\\\c","n20"\],"metadata":{"estimator":"softmax",' stdout
prints '{"kind":"data","format":"LIBSVM text","rows":2,"features":2,"values":2,"classes":2,"labels":2,"unlabelled":0,"empty":0}' info odd.rows --json
# A pipe is answered row by row: the answer is there before the next line is sent.
cat >ask.py <<'EOF'
import subprocess, sys
program, model, *lines = sys.argv[1:]
with subprocess.Popen([program, "predict", "--model", model, "--data", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
    for line in lines:
        p.stdin.write((line.replace("!", "") + "\n").encode())
        p.stdin.flush()
        if not line.endswith("!"):  # a header
            sys.stdout.write(p.stdout.readline().decode())
            sys.stdout.flush()
    p.stdin.close()
    sys.exit(p.wait())
EOF
run 0 train --data dense.csv --estimator softmax --eta 1 --epochs 2 --model dense.model
printf '1,0.5,1\n2,1,0.5\n' >dense.rows
ask() { # MODEL FILE LINE...: the answers to the lines are those to the file
    model=$1 file=$2
    shift 2
    checks=$((checks + 1))
    timeout 20 python3 ask.py "$xsoftmax" "$model" "$@" >asked 2>stderr || wrong "asking $model line by line"
    run 0 predict --model "$model" --data "$file"
    expect "the answers of $model are those to a file" cmp asked stdout
}
if command -v python3 >/dev/null; then
    ask three.model four.rows '__label__a x' '__label__b x' '__label__b y' '__label__c,"d y'
    ask odd.model odd.rows '10 0:1' '20 1:1'
    { echo '2 2 21' && cat odd.rows; } >odd.xc
    ask odd.model odd.xc '2 2 21!' '10 0:1' '20 1:1'
    printf 'label,a,b\n1,0.5,1\n2,1,0.5\n' >dense.two
    ask dense.model dense.two 'label,a,b!' '1,0.5,1' '2,1,0.5'
fi
# As many rows as one likes, in bounded memory; a line that is wrong by its number; and what is compressed.
awk 'BEGIN { for (i = 0; i < 40000; i++) print "__label__a x y z w" i }' >long.rows
checks=$((checks + 1))
# The address sanitizer reserves more than any bound.
# shellcheck disable=SC3045
([ -n "${ASAN_OPTIONS-}" ] || ulimit -v 200000 && "$xsoftmax" predict --model three.model --data - --top 1 --threads 1) <long.rows >whole 2>stderr || wrong 'a long file'
cat long.rows | "$xsoftmax" predict --model three.model --data - --top 1 >pieces 2>stderr || wrong 'a long pipe'
expect 'a long pipe as the file' cmp whole pieces
{ head -n 30000 rows && cat rows rows rows && echo '10 0:x'; } | "$xsoftmax" predict --model m6 --data - --format libsvm >stdout 2>stderr &&
    wrong 'a wrong line of a pipe'
says stderr "standard input, line 1201, column 6: expected a number, found 'x'"
if [ "$gzip" = gzip ]; then
    gzip -c four.rows | "$xsoftmax" predict --model three.model --data - >asked 2>stderr || wrong 'a compressed pipe'
    run 0 predict --model three.model --data four.rows
    expect 'a compressed pipe as the file' cmp asked stdout
fi
prints '1 of a class that training never saw' evaluate --model m6 --data strange.txt --threads 1
run 0 evaluate --model m6 --data test.txt --labels all

run 0 predict --model m6 --data test.txt
expect 'a line a row' test "$(wc -l <stdout)" -eq 103
expect 'five pairs a line, no more classes than there are' test "$(awk -F '\t' 'NF != 5' stdout | wc -l)" -eq 0
expect 'the labels of the file' test "$(tr '\t' '\n' <stdout | sed 's/:.*//' | sort -nu | tr '\n' ' ')" = '10 20 30 40 50 '
expect 'best first' test "$(awk -F '\t' '{ for (i = 2; i <= NF; i++) { split($(i - 1), a, ":"); split($i, b, ":")
    if (b[2] + 0 > a[2] + 0) bad++ } } END { print bad + 0 }' stdout)" -eq 0
cp stdout scores
run 0 predict --model m6 --data test.txt --threads 1 --top 100
expect 'the same from one thread' cmp scores stdout
code=0
"$xsoftmax" predict --model m6 --data - <test.txt >stdout 2>stderr || code=$?
expect 'the same from standard input' cmp scores stdout
# Filters: what is left of all classes.
run 0 predict --model m6 --data test.txt --allow some.list
says stderr "some.list: 1 of 3 labels are not the model's: '7'"
expect 'only labels of --allow' test "$(tr '\t' '\n' <stdout | sed 's/:.*//' | sort -nu | tr '\n' ' ')" = '10 40 '
sed 's/\(^\|\t\)[235]0:[^\t]*//g; s/^\t//' scores >left
expect 'what --allow leaves of all' cmp left stdout
# Lists as editors write them: a byte order mark, blanks, carriage returns.
printf '\357\273\277a\r\n c,"d \r\n\tw\n' >marked.list
run 0 predict --model three.model --data four.rows --top 3 --deny marked.list
says stderr "marked.list: 1 of 3 labels are not the model's: '	w'"
expect 'the first label is denied' test "$(sed 's/:.*//' stdout | sort -u)" = b
printf '\357\273\27710\r\n 40 \n' >marked.list
run 0 predict --model m6 --data test.txt --allow marked.list
expect 'only the numbers of the list' test "$(tr '\t' '\n' <stdout | sed 's/:.*//' | sort -nu | tr '\n' ' ')" = '10 40 '
printf '10\n1\n2\n3\n4\n' >marked.list
run 0 predict --model m6 --data test.txt --deny marked.list
says stderr "marked.list: 4 of 5 labels are not the model's: '1', '2', '3', ..."
printf '\037\213\010' >marked.list
fails 1 'marked.list: is compressed; a list of labels is plain text' predict --model three.model --data four.rows --deny marked.list
run 0 predict --model m6 --data test.txt --deny some.list --index exact
expect 'no labels of --deny' test "$(tr '\t' '\n' <stdout | sed 's/:.*//' | sort -nu | tr '\n' ' ')" = '20 30 50 '
run 0 predict --model m6 --data test.txt --exclude known
expect 'four others for each row with a label' test "$(awk -F '\t' 'NF == 4' stdout | wc -l)" -gt 90
awk 'NR == FNR { own[FNR - 1] = $1; next } { for (i = 1; i <= NF; i++) if ($i ~ "^" own[FNR] ":") bad++ } END { exit bad > 0 }' \
    test.txt stdout || wrong 'a row gets its own label'
run 0 predict --model m6 --data test.txt --threshold .25
awk -F '\t' '{ line = ""; for (i = 1; i <= NF; i++) { split($i, of, ":"); if (of[2] >= .25) line = line (line ? "\t" : "") $i }
    print line }' scores >left
expect 'some scores are below .25, and some are not' test "$(grep -c : left)" -gt 0 -a "$(wc -c <left)" -lt "$(wc -c <scores)"
expect 'the scores of at least .25' cmp left stdout
run 0 predict --model m6 --data test.txt --probabilities
cp stdout all
run 0 predict --model m6 --data test.txt --probabilities --threshold .3
expect 'probabilities above the threshold' test "$(tr '\t:' '\n ' <stdout | awk 'NF && $2 < .3' | wc -l)" -eq 0
expect 'a line a row' test "$(wc -l <stdout)" -eq 103
expect 'the probabilities are those of all classes' test "$(tr '\t:' '\n ' <all | awk '$2 >= .3' | wc -l)" -eq \
    "$(tr '\t' '\n' <stdout | grep -c :)"
labels_of() { sed 's/:[^\t]*//g' "$1"; }
labels_of scores >all
for index in exact 'spherical --probe 5 --index-set clusters=2'; do
    # shellcheck disable=SC2086
    run 0 predict --model m6 --data test.txt --index $index
    labels_of stdout >found # scores may differ in their last digit
    expect "prediction by index $index" cmp -s found all
    expect 'recall is told' grep -q '^xsoftmax: index .* recall@5 1.0000, 100.00 % of the classes scored$' stderr
done
prints 'index      spherical, built in' evaluate --model m6 --data test.txt --index spherical --probe 5 --index-set clusters=2
says stdout ': 5 of 5 classes scored a row'
says stdout '  recall    @1 1.0000, @3 1.0000, @5 1.0000'
# An index is saved, and finds what it found.
prints 'index      spherical over 5 classes, built in' index --model m6 --output m6.index --probe 5 --index-set clusters=2
run 0 predict --model m6 --data test.txt --index-file m6.index
labels_of stdout >found
expect 'prediction by a saved index' cmp -s found all
expect 'recall is told' grep -q '^xsoftmax: index spherical over 5 classes loaded in .* 100.00 % of the classes scored$' stderr
prints 'index      spherical, loaded in' evaluate --model m6 --data test.txt --index-file m6.index
prints '"index":{"name":"spherical","load_seconds":' evaluate --model m6 --data test.txt --index-file m6.index --json
fails 1 'm6.index: an index of' predict --model model --data test.txt --index-file m6.index
prints '"index":{"name":"exact","build_seconds":' evaluate --model m6 --data test.txt --index exact --json
says stdout '"recall":{"1":1,"3":1,"5":1,"10":null},"precision":{"1":'
# A tree that the model carries is searched by a beam, or predicts alone.
run 0 train --data train.txt --transform tfidf,unit --estimator negative-sampling --set sampler=tree --epochs 20 --eta 1 \
    --model tree.model
run 0 predict --model tree.model --data test.txt --top 2
cp stdout all
run 0 predict --model tree.model --data test.txt --top 2 --beam 5
expect 'a beam of all classes finds the same' cmp -s all stdout
says stderr 'beam of 5 in the tree over 5 classes; recall@2 1.0000, 100.00 % of the classes scored'
run 0 predict --model tree.model --data test.txt --top 2 --beam 3
says stderr ', 60.00 % of the classes scored'
fails 2 'accepted is 5 and above' predict --model tree.model --data test.txt --beam 4
run 0 predict --model tree.model --data test.txt --top 5 --tree-alone --probabilities
expect 'the probabilities of the tree sum to one' test "$(awk -F '\t' '{ sum = 0
    for (i = 1; i <= NF; i++) { split($i, a, ":"); sum += a[2] }
    if (sum < 0.9999 || sum > 1.0001) bad++ } END { print bad + 0 }' stdout)" -eq 0
prints 'beam       5 of 5 classes scored a row' evaluate --model tree.model --data test.txt --beam 5
says stdout '  recall    @1 1.0000, @3 1.0000, @5 1.0000'
prints '"tree_alone":{"width":0,"classes_scored":5,"recall":{"1":' evaluate --model tree.model --data test.txt --tree-alone --json
prints '"beam":{"width":2,"classes_scored":2,"recall":{"1":' evaluate --model tree.model --data test.txt --beam 2 --json
says stdout ',"3":null,"5":null,"10":null}'
fails 1 '--beam' predict --model tree.model --data test.txt --index exact
# A label tree finds classes for another model.
run 0 train --data train.txt --transform tfidf,unit --method label-tree --model list.model
run 0 predict --model tree.model --data test.txt --top 2 --shortlist list.model
expect 'a shortlist of all classes finds the same' test "$(sed 's/:[^\t]*//g' all)" = "$(sed 's/:[^\t]*//g' stdout)"
says stderr 'shortlist list.model over 5 classes; recall@2 1.0000, 100.00 % of the classes scored'
run 0 predict --model tree.model --data test.txt --top 2 --shortlist list.model --candidates 3
says stderr ', 60.00 % of the classes scored'
prints 'shortlist  list.model: 5 of 5 classes scored a row' evaluate --model tree.model --data test.txt --shortlist list.model
prints '"shortlist":{"file":"list.model","classes_scored":' evaluate --model tree.model --data test.txt --shortlist list.model --candidates 3 --json
run 0 train --data train.txt --method label-tree --transform unit --model other.model
fails 1 "the model takes rows transformed by 'tfidf,unit', the label tree of the shortlist by 'unit'" predict --model tree.model --data test.txt --shortlist other.model

run 0 predict --model m6 --data test.txt --probabilities
expect 'probabilities add up to 1' test "$(awk -F '\t' '{ s = 0; for (i = 1; i <= NF; i++) { split($i, a, ":")
    s += a[2] } if (s < 0.9999 || s > 1.0001) bad++ } END { print bad + 0 }' stdout)" -eq 0
run 0 predict --model m1 --data test.txt --top 1
expect 'names, colons and all' test "$(grep -c "$(printf '^name [1-5]0: \303\244:')" stdout)" -eq 103
printf '70001 1:1\n70002 2:1\n' >others.txt
run 0 evaluate --model m6 --data others.txt
says stderr 'others.txt: no label of the rows is one that the model has: the first is 70001, and there it is'
printf '1 0:1\n1 99:1\n1 88:1\n' >unknown.txt
run 0 predict --model m6 --data unknown.txt --top 1
expect 'rows of unknown features are told, once' test "$(cat stderr)" = \
    'xsoftmax: 2 of 3 rows have no feature that the model knows'
run 0 predict --model m6 --data unlabelled.txt --top 1
expect 'nothing to tell' test ! -s stderr
expect 'rows without a label' test "$(wc -l <stdout)" -eq 2

# --- info -------------------------------------------------------------------------------------------------------------------
run 0 info m1
for part in 'classes                5' 'features               20' 'bias                   yes' 'label names            yes' \
    'estimator              implicit' 'estimator.negatives' 'training.epochs        20' 'tfidf,unit'; do
    says stdout "$part"
done
run 0 info train.txt
for part in 'Extreme Classification text, sparse' 'rows                   303' 'features               20' \
    'rows without a label   1' 'rows without a feature 1'; do
    says stdout "$part"
done
# Tables to predict need no column of labels, nor do they need to be named as a format.
printf 'a,b\n0.5,1\n1,0.5\n' >bare.csv
printf 'a\tb\n0.5\t1\n' >bare.tsv
printf '0.5,1\n1,0.5\n' >headless.csv
printf 'a,b,c\n0.5,1,2\n' >wide.csv
printf 'label,a,b\nred,1,0\nblue,0,1\n' >words.csv
run 0 train --data dense.csv --estimator softmax --epochs 20 --eta 1 --model dense.model
run 0 predict --model dense.model --data dense.csv --top 1
head -n 2 stdout >wanted
run 0 predict --model dense.model --data bare.csv --top 1
expect 'the same without labels' cmp -s wanted stdout
run 0 predict --model dense.model --data bare.tsv --format tsv
run 0 predict --model dense.model --data wide.csv --top 1
expect 'a column that the model has not is left out' sh -c 'head -n 1 wanted | cmp -s - stdout'
printf 'b,label,a\n1,,0.5\n0.5,,1\n' >swapped.csv
run 0 predict --model dense.model --data swapped.csv --top 1
expect 'columns are found by name' cmp -s wanted stdout
run 0 train --data words.csv --estimator softmax --epochs 20 --eta 1 --model words.model
prints 'blue:' predict --model words.model --data bare.csv --top 1
printf 'a,label\n1,2\n' >narrow.csv
refuse 1 "narrow.csv, line 1, column 1: the column 'b' of the model is missing in the file, whose first is the column 'a'" 'predict --model dense.model --data narrow.csv'
run 0 predict --model dense.model --data headless.csv --top 1
says stderr 'headless.csv: line 1 is read as a row, not as names of columns'
expect 'the same without a header line' cmp -s wanted stdout
refuse 1 'the column of labels is --label-column, a name or a number' 'evaluate --model dense.model --data bare.csv'
refuse 1 "no column 'label'; the columns, with commas between, are 'a', 'b'; name the label's with --label-column" 'train --data bare.csv'
prints 'CSV, dense' info dense.csv
# A path of more bytes than a message has leaves the file's name and the reason.
name=$(printf '%0200d' 0)
long=$name/$name/$name/$name/$name
mkdir -p "$long"
cp broken.txt "$long"
fails 1 '/broken.txt, line 2, column 6: expected a number' info "$long/broken.txt"
says stderr 'xsoftmax: 0000'
says stderr '000...000'

# --- Ctrl-C -----------------------------------------------------------------------------------------------------------------
# wait_for_training FILE: until the run has begun to write its history.
wait_for_training() {
    tries=0
    while [ "$(find . -name "$1.*.new" -size +0 | wc -l)" -eq 0 ] && [ "$tries" -lt 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

for signal in INT TERM; do
    echo old >stop.model
    env --default-signal=INT "$xsoftmax" train --estimator implicit --data train.txt --epochs 100000000 --schedule constant --eta 0.1 \
        --evaluate-every 1000 --model stop.model --history stop.csv --json >stdout 2>stderr </dev/null &
    process=$!
    wait_for_training stop.csv
    kill -s "$signal" "$process"
    code=0
    wait "$process" || code=$?
    expect "stopped by $signal: exit code $code" test "$code" -eq "$([ "$signal" = INT ] && echo 130 || echo 143)"
    says stderr 'xsoftmax: stopped after '
    says stdout '"stopped":"training","train":'
    # Null, unless the signal came just as an evaluation had ended.
    expect "stopped by $signal: figures" grep -qE '"train":\{"log_loss":(null|[0-9.e-]+),"error":(null|[0-9.e-]+),"rows":(null|[0-9]+)\}' stdout
    expect 'one JSON object all the same' test "$(wc -l <stdout)" -eq 1
    expect 'the history is there' test "$(wc -l <stop.csv)" -ge 2
    run 0 evaluate --model stop.model --data train.txt
    rm -f stop.model stop.csv
    expect 'no temporary file is left' test "$(find . -name '*.new' | wc -l)" -eq 0
done
# Killed: the old file stays, and beside it one that holds the epochs so far in whole lines, under a name that the next run
# does not touch.
echo old >stop.csv
"$xsoftmax" train --estimator implicit --data train.txt --epochs 100000000 --schedule constant --eta 0.1 --evaluate-every 1000 \
    --model stop.model --history stop.csv >stdout 2>stderr </dev/null &
process=$!
wait_for_training stop.csv
kill -s KILL "$process"
wait "$process" || :
expect 'killed: the history of before' test "$(cat stop.csv)" = old
expect 'killed: no model' test ! -e stop.model
expect 'killed: one file is left' test "$(find . -name '*.new')" = "./stop.csv.$process-0.new"
expect 'killed: its lines' test "$(grep -c ',.*,' "stop.csv.$process-0.new")" -ge 2
run 0 train --estimator implicit --data train.txt --epochs 2 --history stop.csv
expect 'killed: the next run replaces the history' test "$(wc -l <stop.csv)" -eq 3
expect 'killed: and leaves the other' test -s "stop.csv.$process-0.new"
rm stop.csv "stop.csv.$process-0.new"

# --- checkpoints ------------------------------------------------------------------------------------------------------------
# Stopped on the way and resumed with the chosen rate of before: the model of the run that was not stopped.
run 0 train --estimator implicit --data train.txt --epochs 40 --model whole.model
"$xsoftmax" train --estimator implicit --data train.txt --epochs 3 --eta "$("$xsoftmax" info whole.model | sed -n 's/^ *training.eta *//p')" \
    --checkpoint run.checkpoint --model part.model >stdout 2>stderr || wrong 'a run with a checkpoint'
run 0 train --estimator implicit --data train.txt --epochs 40 --resume run.checkpoint --checkpoint run.checkpoint --model resumed.model
expect 'resumed to the same model' cmp -s whole.model resumed.model
run 0 predict --model run.checkpoint --data train.txt
prints 'done                   40 epochs and 0 rows, ' info run.checkpoint
# What was chosen is in the checkpoint: the run goes on without its trials, and ends as the one that was not stopped.
run 0 train --data train.txt --optimizer sgd --model whole.model --checkpoint chosen.checkpoint
run 0 train --data train.txt --optimizer sgd --resume chosen.checkpoint --model resumed.model
expect 'nothing was tried again' test ! -s stderr
expect 'the choice of before' cmp -s whole.model resumed.model
run 0 train --data train.txt --resume chosen.checkpoint --model resumed.model
expect 'the choice of before, with nothing said' cmp -s whole.model resumed.model
# So is an embedding model's shape.
run 0 train --data train.txt --labels first --estimator softmax --hidden 4 --activation tanh --optimizer adagrad --eta 0.1 --epochs 2 --model whole.model \
    --checkpoint hidden.checkpoint
run 0 train --data train.txt --resume hidden.checkpoint --model resumed.model
expect 'the embedding model of before, with nothing said' cmp -s whole.model resumed.model
# And what a choice may set of estimator and optimizer, and which labels were read.
run 0 train --data train.txt --estimator sampled-softmax --set negatives=3 --set shared=yes --batch 8 --optimizer adagrad \
    --set optimizer.initial=0.25 --eta 0.1 --epochs 2 --model whole.model --checkpoint set.checkpoint
run 0 train --data train.txt --resume set.checkpoint --model resumed.model
expect 'the options of before, with nothing said' cmp -s whole.model resumed.model
# All of them, whoever set them, and those of a sampler or an index.
for options in 'ove --set tight=2 --set negatives=2' 'ove --set tight-classes=1,3 --set negatives=all' \
    'umax --set delta=0.5 --set start=log-classes --ridge 0.1' \
    'nce --set sampler=frequency --set sampler.power=0.5 --set negatives=2' \
    'mips --set candidates=3 --set index=spherical --set index.probe=3 --set startup=0 --set missing=zero'; do
    # shellcheck disable=SC2086
    run 0 train --data train.txt --labels first --estimator $options --eta 0.1 --epochs 2 --model whole.model --checkpoint set.checkpoint
    run 0 train --data train.txt --resume set.checkpoint --model resumed.model
    expect "the options of before: $options" cmp -s whole.model resumed.model
done
fails 1 'missing.checkpoint' train --data train.txt --resume missing.checkpoint
fails 1 'beyond the 2 epochs of this run' train --estimator implicit --data train.txt --epochs 2 --resume run.checkpoint
fails 1 'made with estimator.ridge = 0, this run has 2' train --estimator implicit --data train.txt --resume run.checkpoint --epochs 40 --ridge 2
fails 1 'run.checkpoint: the checkpoint was made with' train --estimator implicit --data test.txt --resume run.checkpoint --epochs 40
fails 1 'not a checkpoint' train --estimator implicit --data train.txt --resume whole.model --eta 1
fails 1 'missing.checkpoint' train --estimator implicit --data train.txt --resume missing.checkpoint
fails 2 '--checkpoint-every needs --checkpoint' train --data train.txt --checkpoint-every 5
fails 2 'lbfgs uses all rows at once' train --data train.txt --estimator softmax --optimizer lbfgs --checkpoint x
fails 2 'would replace a file that is read' train --estimator implicit --data train.txt --checkpoint train.txt
# Two outputs in one file that is not there yet, by whatever names; an output in what is read.
rm -f x
ln -sf here/two soft.model
ln -sf "$PWD/x" two
for pair in '--model x --history ./x' '--model ./x --checkpoint x' '--history here/x --checkpoint ././x' \
    '--model x --checkpoint soft.model' '--model - --history /dev/stdout' "--model $PWD/x --history here/../${PWD##*/}/x"; do
    # shellcheck disable=SC2086
    fails 2 'is the file of --' train --estimator implicit --data train.txt --epochs 1 --eta 1 $pair
    expect 'nothing is written' test ! -e x
done
rm two
checks=$((checks + 1))
"$xsoftmax" convert --data train.txt --to npy --output - --labels-to /dev/stdout 2>&1 >stdout | cat >stderr
says stderr '--labels-to: /dev/stdout is the file of --output'
{ "$xsoftmax" convert --data train.txt --to npy --output - --labels-to /dev/stdout 2>stderr || :; } | cat >stdout
says stderr '--labels-to: /dev/stdout is the file of --output'
# What is said of an output in a pipe, and JSON after all that is said.
for command in 'prune --keep 1' index; do
    # shellcheck disable=SC2086
    { "$xsoftmax" $command --model whole.model --output - 2>stderr || :; } | cat >stdout
    says stderr 'file       standard output'
done
{ "$xsoftmax" prune --keep 1 --model whole.model --output - --json 2>stderr || :; } | cat >stdout
says stderr '"model_bytes":null}'
run 1 train --estimator implicit --data train.txt --epochs 1 --eta 1 --model - --checkpoint /dev/full --json
expect 'the last line is JSON' test "$(tail -n 1 stderr | cut -c 1-2)" = '{"'
fails 1 '/dev/full: cannot write: No space left' evaluate --model whole.model --data train.txt --by-class /dev/full
fails 2 '--history: ./run.checkpoint would replace a file that is read' train --estimator implicit --data train.txt --resume run.checkpoint --history ./run.checkpoint
cp run.checkpoint kept.checkpoint
fails 2 '--model: ./run.checkpoint would replace a file that is read' train --estimator implicit --data train.txt --resume run.checkpoint --model ./run.checkpoint
expect 'the checkpoint is kept' cmp run.checkpoint kept.checkpoint
fails 2 'would replace a file that is read' train --estimator implicit --data train.txt --warm-start whole.model --eta 1 --history here/whole.model
run 1 train --estimator implicit --data train.txt --checkpoint missing-folder/x --model m
# No command replaces what it reads: by any path, link or hard link, or where the shell opened it.
cp whole.model kept.model
ln -sf kept.model soft.model
ln -f kept.model hard.model
cp kept.model kept.copy
cp train.txt kept.txt
cp names.txt kept.names
for out in kept.model ./kept.model here/kept.model soft.model hard.model "$PWD/kept.model"; do
    for command in index 'prune --keep 1' 'convert-model --type int8'; do
        # shellcheck disable=SC2086
        fails 2 "--output: $out would replace a file that is read" $command --model kept.model --output "$out"
    done
    fails 2 "--output: $out would replace a file that is read" calibrate --model kept.model --data test.txt --output "$out"
done
run 2 index --model soft.model --output kept.model
run 2 prune --keep 1 --test kept.txt --model kept.model --output kept.txt
run 2 convert --data kept.txt --to cache --output kept.txt
run 2 convert --data kept.txt --split 0.5 --to xc --output x --rest here/kept.txt
run 2 convert --data kept.txt --to npy --output x --labels-to ./kept.txt
run 2 convert --data kept.txt --to xc --output x --names-to kept.txt
run 2 convert --data kept.txt --to xc --output x --weights-to kept.txt
run 2 convert --data kept.txt --label-names kept.names --to xc --output x --names-to kept.names
run 2 train --data train.txt --class-weights kept.names --estimator implicit --model kept.names
run 2 train --data train.txt --test kept.txt --estimator implicit --history kept.txt
checks=$((checks + 1))
"$xsoftmax" convert --data - --to xc --output kept.txt <kept.txt >stdout 2>stderr && wrong 'replaces its standard input'
says stderr '--output: kept.txt would replace a file that is read'
cmp -s kept.model kept.copy && cmp -s kept.txt train.txt && cmp -s kept.names names.txt || wrong 'an input changed'
expect 'nothing is written' test ! -e x
# A word is no file that is read, a model is replaced where a flag says so.
run 0 train --data train.txt --class-weights balanced --estimator implicit --epochs 1 --eta 1 --model balanced
run 0 convert-model --in-place --type bfloat16 --model soft.model --output kept.model
expect 'half of it' test "$(wc -c <kept.model)" -lt "$(wc -c <kept.copy)"
run 0 calibrate --model kept.model --data test.txt --output kept.model --in-place
run 2 prune --keep 1 --in-place --test train.txt --model kept.model --output train.txt
rm -f kept.* soft.model hard.model balanced
run 0 train --data train.txt --estimator implicit --epochs 1 --eta 1
says stderr 'no --model is given: the trained model is not kept'
# What cannot be written beside the model does not cost the model.
for option in 'the last checkpoint is|--checkpoint /dev/full' 'the history is|--history /dev/full' \
    'the last checkpoint and the history are|--history /dev/full --checkpoint /dev/full'; do
    rm -f kept.model
    # shellcheck disable=SC2086
    run 1 train --estimator implicit --data train.txt --epochs 1 --eta 1 --model kept.model ${option#*|}
    says stderr '/dev/full: cannot write'
    says stderr "xsoftmax: the model is saved in kept.model; ${option%|*} not"
    says stdout 'saved      kept.model'
    run 0 evaluate --model kept.model --data train.txt
done
fails 1 'the last checkpoint is not saved; no --model was given' train --estimator implicit --data train.txt --epochs 1 --eta 1 --checkpoint /dev/full
env --default-signal=INT "$xsoftmax" train --estimator implicit --data train.txt --epochs 100000000 --schedule constant --eta 0.1 \
    --checkpoint stop.checkpoint --checkpoint-every 0 >stdout 2>stderr </dev/null &
process=$!
tries=0
while ! [ -e stop.checkpoint ] && [ "$tries" -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -s INT "$process"
code=0
wait "$process" || code=$?
expect "stopped with a checkpoint: exit code $code" test "$code" -eq 130
says stderr 'the same command goes on with --resume stop.checkpoint'
run 0 info stop.checkpoint
rm -f ./*.checkpoint whole.model part.model resumed.model

# A limit on file sizes is an error with a message, and leaves nothing behind.
awk 'BEGIN { for (i = 1; i <= 300; i++) print i " " i ":1" }' >limit.svm
checks=$((checks + 1))
code=0
(
    ulimit -f 16
    exec "$xsoftmax" train --data limit.svm --estimator softmax --epochs 1 --eta 1 --model limit.model --history limit.csv
) >stdout 2>stderr </dev/null || code=$?
[ "$code" -eq 1 ] || wrong "exit code $code beyond the limit of file sizes"
says stderr 'cannot write: File too large'
expect 'nothing is left' test "$(find . -name 'limit.*' | wc -l)" -eq 1
rm -f limit.*

# --- warm starts ------------------------------------------------------------------------------------------------------------
printf '3 1:1 2:0.5\n8 2:1\n3 1:0.7\n8 2:0.9 3:0.1\n' >old.svm
printf '5 4:1\n8 2:1\n1 6:1\n5 4:0.8\n' >new.svm
run 0 train --data old.svm --format libsvm --eta 1 --epochs 20 --estimator softmax --model old.model
prints 'start      from old.model, with 2 new classes' train --data new.svm --format libsvm --warm-start old.model --eta 0.1 --epochs 20 --estimator softmax --model new.model
prints 'classes                4' info new.model
says stdout 'features               6'
says stdout 'labels                 1 to 8'
says stdout 'training.warm_start    old.model'
run 0 predict --model new.model --data new.svm --format libsvm --top 1
run 0 train --data new.svm --format libsvm --warm-start new.model --eta 0.1 --estimator umax --test old.svm --model new.model
fails 2 '--warm-start needs --eta' train --data new.svm --format libsvm --warm-start old.model
fails 2 'a warm start treats rows' train --data new.svm --format libsvm --warm-start old.model --eta 1 --transform unit
fails 2 '--warm-start needs --estimator' train --data new.svm --format libsvm --warm-start old.model --eta 1
fails 1 'missing.model' train --data new.svm --format libsvm --warm-start missing.model --eta 1 --estimator umax
run 0 train --data old.svm --format libsvm --eta 1 --transform tfidf,unit --estimator negative-sampling --set negatives=1 \
    --set sampler=frequency --model fitted.model
run 0 train --data new.svm --format libsvm --warm-start fitted.model --eta 1 --estimator negative-sampling --set negatives=1 \
    --set sampler=frequency --model fitted.model
prints 'features               6' info fitted.model
says stdout 'classes                4'
says stdout 'tfidf,unit'
prints 'left out 3 times: features that it lacks' train --data new.svm --format libsvm --warm-start old.model --eta 1 --estimator softmax --new-words no --model fitted.model
run 0 train --data old.svm --format libsvm --eta 1 --transform truncate=2 --estimator softmax --model fitted.model
prints 'left out 3 times' train --data new.svm --format libsvm --warm-start fitted.model --eta 1 --estimator softmax --model fitted.model
fails 1 '--new-words no leaves these out' train --data new.svm --format libsvm --warm-start fitted.model --eta 1 --estimator softmax --new-words yes
fails 2 '--new-words is of --warm-start' train --data new.svm --format libsvm --eta 1 --estimator softmax --new-words no
# Names: new classes get those of the file, others keep theirs, and a file that says otherwise is refused.
printf 'zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n' >eight.names
run 0 train --data new.svm --format libsvm --warm-start old.model --eta 0.1 --estimator softmax --label-names eight.names \
    --model fitted.model
run 0 predict --model fitted.model --data new.svm --format libsvm --top 4
expect 'all classes have names' test "$(head -n 1 stdout | tr '\t' '\n' | sed 's/:.*//' | sort | tr '\n' ' ')" = \
    'eight five one three '
run 0 train --data old.svm --format libsvm --eta 1 --estimator softmax --label-names eight.names --model named.model
run 0 train --data new.svm --format libsvm --warm-start named.model --eta 0.1 --estimator softmax --label-names eight.names \
    --model fitted.model
run 0 predict --model fitted.model --data new.svm --format libsvm --top 4
expect 'new classes have names' test "$(head -n 1 stdout | tr '\t' '\n' | sed 's/:.*//' | sort | tr '\n' ' ')" = \
    'eight five one three '
run 0 train --data new.svm --format libsvm --warm-start named.model --eta 0.1 --estimator softmax --model fitted.model
run 0 train --data new.svm --format libsvm --warm-start fitted.model --eta 0.1 --estimator softmax --label-names eight.names \
    --model fitted.model
run 0 predict --model fitted.model --data new.svm --format libsvm --top 4
expect 'numbers become names' test "$(head -n 1 stdout | tr '\t' '\n' | sed 's/:.*//' | sort | tr '\n' ' ')" = \
    'eight five one three '
sed 's/eight/ate/' eight.names >ate.names
run 1 train --data new.svm --format libsvm --warm-start named.model --eta 0.1 --estimator softmax --label-names ate.names
says stderr "ate.names, line 9: the label 8 is named 'ate', and 'eight' in named.model"
run 0 train --data old.svm --format libsvm --eta 1 --transform log,unit --estimator softmax --model fitted.model
run 0 train --data new.svm --format libsvm --warm-start fitted.model --eta 1 --estimator softmax --model fitted.model
prints 'features               6' info fitted.model
says stdout 'log,unit'
# embedding models: their features' vectors too
run 0 train --data old.svm --format libsvm --eta 0.5 --epochs 5 --estimator softmax --hidden 4 --model old.model
run 0 train --data new.svm --format libsvm --warm-start old.model --eta 0.1 --epochs 20 --estimator softmax \
    --optimizer adagrad --test old.svm --model new.model
says stdout 'start      from old.model, with 2 new classes'
prints 'embedding, 6 features to 4 by sum, 4 classes' info new.model
says stdout 'labels                 1 to 8'
printf '4 4 4\n0 1:1\n1 2:1\n2 0:1\n3 0:1 1:1\n' >old.txt
printf '2 7 6\n5 1:1\n0 6:1\n' >new.txt
run 0 train --data old.txt --hidden 3 --tied --epochs 3 --eta 0.1 --estimator softmax --model old.model
prints 'start      from old.model, with 3 new classes' train --data new.txt --warm-start old.model --eta 0.1 --estimator softmax --test old.txt --model new.model
prints 'embedding, 7 features to 3 by sum, tied, 7 classes' info new.model
rm -f old.model new.model fitted.model old.svm new.svm old.txt new.txt

# Text is read with the model's words, n-grams and label prefix, and new words become features, again and again.
printf '#a apple apple pear\n#b beet beet leek\n#a apple pear\n#b beet leek\n' >old.words
printf '#b beet leek zucchini kale apple\n' >new.words
printf '#c fig fig kale\n' >last.words
printf '#a apple\n#b beet\n' >test.words
for more in '' '--word-ngrams 2 --buckets 50' '--hidden 4 --optimizer adagrad'; do
    run 0 train --data old.words --format text --label-prefix '#' --estimator softmax --eta 0.5 --epochs 50 $more --model old.model
    prints 'with 0 new classes and 2 new features' train --data new.words --warm-start old.model --estimator softmax --eta 0.1 --epochs 5 --test test.words --model new.model
    says stdout 'error 0.00 %'
    run 0 train --data last.words --warm-start new.model --estimator softmax --eta 0.1 --epochs 5 --test test.words \
        --model new.model
    says stdout 'with 1 new classes and 1 new features'
    says stdout 'error 0.00 %'
    prints 'words                  7' info new.model
    prints '"new_features":0,"features_left_out":2' train --data new.words --warm-start old.model --estimator softmax --eta 0.1 --new-words no --test test.words --json
    prints 'with 1 new classes and 1 new features' train --data last.words --warm-start old.model --min-count 2 --estimator softmax --eta 0.1
done
cat old.words last.words >several.words
run 0 train --data old.words --format text --label-prefix '#' --method label-tree --set leaf=2 --model old.model
prints 'with 1 new classes and 2 new features' train --data several.words --warm-start old.model --method label-tree --test several.words --model new.model
says stdout '1 new labels have places'
says stdout 'error 0.00 %'
fails 1 'it grows with --method label-tree' train --data several.words --warm-start old.model
fails 2 'has no checkpoints' train --data several.words --warm-start old.model --method label-tree --checkpoint c
# Classes are their names, though some labels are not used.
printf '#d #a apple\n#b pear\n#f #c plum\n' >several.words
run 0 train --data several.words --format text --label-prefix '#' --estimator softmax --labels first --eta 0.5 --epochs 50 \
    --model old.model
printf '#a #d fig\n#f #a plum\n' >several.words
prints 'with 1 new classes and 1 new features' train --data several.words --warm-start old.model --estimator implicit --eta 0.1 --epochs 5 --model new.model
printf 'apple\npear\nplum\n' >fruit.txt
run 0 predict --model new.model --data fruit.txt --top 1
expect 'classes by their names' test "$(cut -d: -f1 stdout | tr '\n' ' ')" = 'd b f '
rm -f several.words fruit.txt
fails 2 "--word-ngrams 2: the model's text was read with 1" train --data new.words --warm-start old.model --word-ngrams 2 --estimator softmax --eta 0.1
fails 2 '--min-count is of new words' train --data new.words --warm-start old.model --min-count 2 --new-words no --estimator softmax --eta 0.1
fails 2 "the labels of the model's text begin with #" train --data new.words --warm-start old.model --label-prefix '##' --estimator softmax --eta 0.1

# What --like writes has the features and classes of a model or cache, so that evaluation says the same of it.
run 0 train --data old.words --format text --label-prefix '#' --estimator softmax --eta 0.5 --epochs 50 --word-ngrams 2 --buckets 9 \
    --model old.model
printf '#c apple fig\n#b beet leek\n' >more.words
run 0 evaluate --model old.model --data more.words
sed '1,2d;/left out/d;$d' stdout >wanted
for to in cache csv libsvm xc npy; do
    case $to in
    xc | libsvm) names='--names-to names' ;;
    npy) names='--names-to names --labels-to labels' ;;
    *) names='' ;;
    esac
    rm -f names
    run 0 convert --data more.words --like old.model --to $to --output more.$to $names
    says stderr 'left out 1 times: words that old.model lacks'
    says stderr 'classes that old.model lacks: 1'
    says stdout "more.$to: 2 rows, 13 features, 3 classes"
    [ -z "$names" ] || expect "$to: the model's classes first" test "$(tr '\n' ' ' <names)" = 'a b c '
done
run 0 evaluate --model old.model --data more.cache
sed '1,2d;/left out/d;$d' stdout >found
expect 'a cache like the model' cmp -s wanted found
prints '1 rows, 13 features, 3 classes' convert --data new.words --like more.cache --to cache --output new.cache
fails 1 '--like takes a model or a cache' convert --data new.words --like more.csv --to cache --output new.cache
fails 2 '--min-count: the words are those of --like' convert --data new.words --like old.model --min-count 2 --to cache --output new.cache
rm -f old.model new.model old.words new.words last.words test.words more.* new.cache names labels wanted found

# Columns are found by name, in any order; a new one is learned, or left out.
printf 'a,b,label\n1,0,x\n0,1,y\n1,0.2,x\n0.1,1,y\n' >old.csv
printf 'b,c,label,a\n1,0,y,0\n0,0,x,1\n0,1,z,0\n' >new.csv
printf 'b,label\n1,y\n' >less.csv
run 0 train --data old.csv --estimator softmax --eta 1 --epochs 30 --model old.model
prints 'with 1 new classes and 1 new features' train --data new.csv --warm-start old.model --estimator softmax --eta 1 --epochs 30 --test new.csv --model new.model
says stdout 'error 0.00 %'
prints 'with 1 new classes; left out: 1 columns that it lacks' train --data new.csv --warm-start old.model --estimator softmax --eta 1 --new-words no
fails 1 "the column 'a' of the model is missing" train --data less.csv --warm-start old.model --estimator softmax --eta 1
run 0 convert --data new.csv --like old.model --to csv --output like.csv
says stderr 'left out: 1 columns that old.model lacks'
expect 'its columns' test "$(tr '\n' ' ' <like.csv)" = 'a,b,label 0,1,y 1,0,x 0,0,z '
rm -f old.* new.* less.csv like.csv

# Hashed feature numbers: only those in use are features, and models find them again.
printf '1 7:1 200000000:2\n2 3:3\n1 3:1 7:2\n2 200000000:1\n' >hashed.svm
printf '1 2:1 3:2\n2 1:3\n1 1:1 2:2\n2 3:1\n' >plain.svm
for data in plain hashed; do
    run 0 train --data $data.svm --estimator softmax --eta 0.5 --model $data.model
    grep log-loss stdout >$data.log
    run 0 predict --model $data.model --data $data.svm --probabilities --top 2
    cp stdout $data.answers
done
expect 'the model of the renumbered rows' cmp -s plain.log hashed.log
expect 'its answers' cmp -s plain.answers hashed.answers
prints 'features               3, the numbers in use of those up to 200,000,000' info hashed.model
prints 'features               3, the numbers in use of those up to 200,000,000' info hashed.svm
printf '1 9:1 200000000:2\n3 99999999999:3\n' >more.svm
run 0 convert --data more.svm --like hashed.model --to libsvm --output more.out
says stderr 'left out 2 times'
expect 'written with its numbers' test "$(head -n 1 more.out)" = '1 200000000:2'
prints 'its feature numbers go up to 99,999,999,999; those in use are the features' train --data more.svm --warm-start hashed.model --estimator softmax --eta 0.5 --model more.model
says stdout 'with 1 new classes and 2 new features'
run 0 convert --data hashed.svm --to csv --output hashed.csv
expect 'columns by their numbers' test "$(head -n 1 hashed.csv)" = f3,f7,f200000000,label
rm -f hashed.* plain.* more.*

# While a learning rate is chosen there is nothing to keep yet.
echo old >stop.model
env --default-signal=INT "$xsoftmax" train --estimator implicit --data train.txt --epochs 100000000 --schedule constant --model stop.model --history stop.csv \
    >stdout 2>stderr </dev/null &
process=$!
sleep 1
kill -s INT "$process"
code=0
wait "$process" || code=$?
expect "stopped while choosing: exit code $code" test "$code" -eq 130
says stderr 'stopped while choosing a learning rate; no model was trained'
expect 'the file that was there stays' test "$(cat stop.model)" = old
expect 'no temporary file is left' test "$(find . -name '*.new' | wc -l)" -eq 0

report
