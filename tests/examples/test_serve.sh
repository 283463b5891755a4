#!/bin/sh
# examples/serve: what it answers, what it refuses, models that are replaced while requests run, limits, and its end.
#
#   test_serve.sh SERVE XSOFTMAX [REQUESTS]     the last is how many malformed requests it must outlive (100, with
#                                               XSM_TEST_FULL 500)
# Words are split, and texts are not expanded, on purpose.
# shellcheck disable=SC2016
# shellcheck source=tests/examples/checks.sh
. "$(dirname "$0")/checks.sh"
serve=$(path_of "$1")
xsoftmax=$(path_of "$2")
requests=${3:-$([ -n "${XSM_TEST_FULL-}" ] && echo 500 || echo 100)}
server=
leave() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null
    rm -rf "$work"
}
trap leave EXIT
# A proxy is not for this machine.
no_proxy='*'
export no_proxy

# until_true COMMAND...: waits at most a minute for it.
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || return 1
        sleep 0.1
    done
}

# start MODEL [OPTION...]
start() {
    rm -f url log
    "$serve" "$@" --port 0 >url 2>log &
    server=$!
    until_true test -s url || {
        wrong "the server does not start: $*"
        exit 1
    }
    url=$(cat url)
}

# stop SIGNAL: ends the server, which must say that all is well.
stop() {
    kill "-$1" "$server" 2>/dev/null
    code=0
    wait "$server" || code=$?
    server=
    expect "the server ends with status $code by SIG$1" test "$code" -eq 0
    says log 'serve: ended by'
}

# ask STATUS CURL-ARGUMENT...: the answer's status must be this one; its body is in answer.
ask() {
    wanted=$1
    shift
    checks=$((checks + 1))
    got=$(curl -sS -m 60 -D head -o answer -w '%{http_code}' "$@" 2>curl-said)
    [ "$got" = "$wanted" ] || wrong "status $got, not $wanted: $* ($(cat curl-said))"
}

# predict STATUS JSON
predict() {
    ask "$1" -d "$2" "$url/predict"
}

# same_as FILE KEY: the answer has the labels and numbers of a file that `xsoftmax predict` has written.
same_as() {
    checks=$((checks + 1))
    /usr/bin/python3 - answer "$1" "$2" <<'END' || wrong "not the predictions of $1"
import json, sys
said = json.load(open(sys.argv[1]))
rows = said["rows"] if "rows" in said else [said["best"]]
lines = open(sys.argv[2]).read().splitlines()
assert len(rows) == len(lines), (len(rows), len(lines))
for row, line in zip(rows, lines):
    wanted = [entry.rsplit(":", 1) for entry in line.split("\t")]
    assert len(row) == len(wanted), (row, line)
    for one, (label, number) in zip(row, wanted):
        assert str(one.get("name", one.get("label"))) == label, (row, line)
        assert abs(one[sys.argv[3]] - float(number)) <= 1e-5 * abs(float(number)) + 1e-12, (row, line)
END
}

# --- models -----------------------------------------------------------------------------------------------------------
awk 'BEGIN { split("sun moon star rain snow wind tree leaf root fish", w)
    for (i = 0; i < 400; i++) { k = i % 8; print "__label__c" k " " w[k + 1] " " w[k + 2] " " w[(i * 7) % 10 + 1] " " w[k + 3] } }' >text
awk 'BEGIN { for (i = 0; i < 200; i++) { k = i % 6; print 10 * k + 5 " " k + 1 ":1 " k + 7 ":0." i % 7 + 1 " " 13 + i % 3 ":0.5" } }' >sparse
awk 'BEGIN { print "label,a,b,c"; for (i = 0; i < 90; i++) { k = i % 3; print k + 1 "," (k == 0) + i % 5 / 9 "," (k == 1) "," (k == 2) } }' >dense.csv
train() {
    "$xsoftmax" train --eta 0.5 --threads 1 "$@" >said 2>&1 || {
        cat said
        exit 1
    }
}
train --data text --estimator softmax --epochs 5 --transform tfidf,unit --model a.model
train --data text --estimator softmax --epochs 2 --transform tfidf,unit --seed 7 --model b.model
train --data sparse --format libsvm --estimator softmax --model first.model
train --data sparse --format libsvm --estimator softmax --warm-start "$work/first.model" --model sparse.model
train --data dense.csv --estimator softmax --transform unit --model dense.model

# --- answers ----------------------------------------------------------------------------------------------------------
cp a.model now.model
start now.model --top 3 --rows 50 --threads 2
ask 200 "$url/health"
says answer '"status":"serving","generation":1,"refused":0'
ask 200 "$url/model"
says answer '"classes":8'
says answer '"transform":"tfidf,unit"'
says answer '"line":"text"'
says answer '"estimator":"softmax"'
ask 200 -I "$url/health"
head -n 40 text | sed 's/^[^ ]* //' >lines
rows=$(awk '{ printf "%s\"%s\"", (NR > 1 ? "," : ""), $0 }' lines)
for what in score probability; do
    flag=
    [ $what = score ] || flag=--probabilities
    # shellcheck disable=SC2086
    "$xsoftmax" predict --model a.model --data lines --format text --top 3 --threads 1 $flag >predicted 2>said
    predict 200 "{\"rows\": [$rows]}"
    same_as predicted $what
    head -n 1 predicted >first
    predict 200 "{\"row\": \"$(head -n 1 lines)\", \"id\": \"x\"}"
    same_as first $what
done
says answer '"id":"x"'
says head 'Content-Type: application/json'
predict 200 '{"row": "sun __label__c1 moon no-such-word", "top": 1, "id": -3}'
cp answer labelled
predict 200 '{"id": -3, "top": 1, "row": "sun\r\n moon"}'
expect "labels, line ends and unknown words in a row count" cmp -s answer labelled
predict 200 '{"row": ""}'
predict 200 '{"row": []}'
predict 200 '{"row": [[3, 1], [0, 2.5]]}'
cp answer sorted
predict 200 '{"row": [[0, 2.5], [3, 1]]}'
expect "the order of features counts" cmp -s answer sorted
ask 200 -H 'Transfer-Encoding: chunked' -d '{"row": "sun"}' "$url/predict"
ask 200 -H 'Expect: 100-continue' -d '{"row": "sun"}' "$url/predict"
ask 200 -0 -d '{"row": "sun"}' "$url/predict"

# --- what is refused --------------------------------------------------------------------------------------------------
ask 404 "$url/"
says answer '{"error":"there are /predict, /model, /health and /reload"}'
ask 404 -d '{}' "$url/predictions"
ask 405 "$url/predict"
says answer '/predict accepts POST'
says head 'Allow: POST'
ask 405 -d '{}' "$url/health"
says head 'Allow: GET, HEAD'
ask 405 -X DELETE "$url/model"
ask 405 "$url/reload"
# refused STATUS JSON MESSAGE
refused() {
    predict "$1" "$2"
    says answer '{"error":"'
    says answer "$3"
}
refused 400 '' 'the body is no JSON: line 1'
refused 400 '{"row": "a"' 'the body is no JSON: line 1, column 11'
refused 400 '{"row": "a"} x' 'end of file expected'
refused 400 '{"row": "a", "row": "b"}' 'duplicate object key'
refused 400 '{"row": "\u0000"}' 'the body is no JSON'
refused 400 '[1]' 'an object with either'
refused 400 '{}' 'either \"row\" or \"rows\"'
refused 400 '{"row": "a", "rows": ["a"]}' 'either \"row\" or \"rows\"'
refused 400 '{"rows": []}' 'an array of one row or more'
refused 400 '{"rows": "a"}' 'an array of one row or more'
refused 400 '{"row": 1}' 'row 0 is neither a line of text nor'
refused 400 '{"rows": ["a", null]}' 'row 1 is neither'
refused 400 '{"rows": ["a", []]}' 'row 1 is pairs of a feature and a value, and row 0 a line of text'
refused 400 '{"row": [[1, 1], [1, 2]]}' 'feature 1 occurs twice'
refused 400 '{"row": [[-1, 1]]}' 'feature -1; 0 to 9 are accepted'
refused 400 '{"row": [[10, 1]]}' 'feature 10; 0 to 9 are accepted'
refused 400 '{"row": [[1]]}' 'a pair is [feature, value]'
refused 400 '{"row": [[1, 1e39]]}' 'no float32'
refused 400 '{"row": [[1, 3e38]]}' 'too large for float32'
refused 400 '{"row": [1, 2]}' 'row 0 has 2 values, and the model 10 features'
refused 400 '{"row": "a", "top": 4}' '\"top\" is a whole number, 1 to 3'
refused 400 '{"row": "a", "top": 0.5}' '\"top\" is a whole number'
refused 400 '{"row": "a", "id": {}}' '\"id\" is text or a whole number'
refused 400 '{"row": "a", "k": 3}' 'unknown member \"k\"; row, rows, top and id are accepted'
refused 413 "{\"rows\": [$(yes '"",' | head -n 50 | tr -d '\n')\"\"]}" '51 rows; at most 50 are accepted'
printf '{"row": "%s"}' "$(yes sun | head -n 300000 | tr '\n' ' ')" >large
ask 413 -H 'Expect:' -d @large "$url/predict"
says answer 'the body is larger than 1048576 bytes'
ask 413 -H 'Expect: 100-continue' -d @large "$url/predict"
ask 413 -H 'Transfer-Encoding: chunked' -H 'Expect:' -d @large "$url/predict"
ask 404 -H 'Expect:' -d @large "$url/"

# --- other models -------------------------------------------------------------------------------------------------------
stop INT
start sparse.model --threads 1
ask 200 "$url/model"
says answer '"training.warm_start":"first.model"'
says answer '"line":"features from 1"'
sed 's/^[^ ]*//' sparse >features
"$xsoftmax" predict --model sparse.model --data features --top 5 --threads 1 >predicted 2>said
predict 200 "{\"rows\": [$(awk '{ printf "%s\"%s\"", (NR > 1 ? "," : ""), $0 }' features)]}"
same_as predicted score
# The same rows as pairs: features of the file begin at 1.
awk '{ printf "%s[", (NR > 1 ? "," : ""); for (i = 1; i <= NF; i++) { split($i, p, ":"); printf "%s[%d,%s]", (i > 1 ? "," : ""), p[1] - 1, p[2] }
    printf "]" }' features >pairs
predict 200 "{\"rows\": [$(cat pairs)]}"
same_as predicted score
predict 200 '{"row": "15 1:1 2:1"}'
refused 400 '{"row": "1:1 x:2"}' 'column'
refused 400 '{"row": "0:1"}' 'start at 1'
says answer '"error"'
stop TERM
"$xsoftmax" train --data sparse --format libsvm --method label-tree --threads 1 --model tree.model >said 2>&1 || cat said
start tree.model --top 3
"$xsoftmax" predict --model tree.model --data features --top 3 --threads 1 --probabilities >predicted 2>said
predict 200 "{\"rows\": [$(cat pairs)]}"
same_as predicted probability
ask 200 "$url/model"
says answer '"trees":'
stop TERM
start dense.model
ask 200 "$url/model"
says answer '"line":"columns by name"'
sed '1d; s/^[^,]*,//' dense.csv >values
"$xsoftmax" predict --model dense.model --data dense.csv --top 3 --threads 1 --probabilities >predicted 2>said
predict 200 "{\"rows\": [$(awk '{ printf "%s[%s]", (NR > 1 ? "," : ""), $0 }' values)]}"
same_as predicted probability
refused 400 '{"row": [1, 2, "x"]}' 'value 2 is no float32'
refused 400 '{"row": [1, 2, 1e300]}' 'value 2 is no float32'
stop TERM

# --- replacement ----------------------------------------------------------------------------------------------------------
cp a.model now.model
start "$work/now.model" --top 2
ask 200 "$url/model"
says answer '"file":"now.model"'
serving() {
    curl -s -m 60 "$url/health" | grep -q "\"generation\":$1,"
}
predict 200 '{"row": "sun moon"}'
cut -d , -f 2- answer >of_a
cp b.model next && mv next now.model
until_true serving 2 || wrong "a new file does not take over"
predict 200 '{"row": "sun moon"}'
cut -d , -f 2- answer >of_b
expect "the two models answer alike" sh -c '! cmp -s of_a of_b'
says log 'serve: model 2: 8 classes, 10 features'
# Requests all the while: an odd generation is of the one file, an even one of the other.
rm -f last
while [ ! -e last ]; do
    curl -s -m 120 -w '\n' -d '{"row": "sun moon"}' "$url/predict?[1-200]" || echo failed
done >answers &
asking=$!
for generation in 3 4 5 6 7 8; do
    if [ $((generation % 2)) -eq 0 ]; then
        cp b.model next
    else
        cp a.model next
    fi
    mv next now.model
    ask 200 -X POST "$url/reload"
    says answer "{\"generation\":$generation}"
done
until_true grep -q '"generation":8,' answers || wrong "no answer comes from the last model"
: >last
wait $asking
expect "requests fail while models are replaced" test $(($(wc -l <answers) % 200)) -eq 0
# shellcheck disable=SC2016
expect "an answer is of no model" awk -F '[:,]' -v a="$(cat of_a)" -v b="$(cat of_b)" \
    'substr($0, index($0, ",") + 1) != ($2 % 2 ? a : b) { print; bad = 1 } END { exit bad }' answers
ask 200 -X POST "$url/reload"
says answer '{"generation":8}'
# Bad files: the model goes on, and everything says so.
generation=8
bad() {
    mv next now.model
    ask 409 -X POST "$url/reload"
    says answer "$1"
    expect "an answer shows a folder" sh -c '! grep -qF "$1" answer' sh "$work"
    predict 200 '{"row": "sun moon"}'
    says answer '"generation":8,'
    ask 200 "$url/health"
    says answer '"generation":8'
    says answer "$1"
    expect "an answer shows a folder" sh -c '! grep -qF "$1" answer' sh "$work"
    says log 'model 8 goes on serving'
}
size=$(wc -c <a.model)
head -c $((size - 4)) a.model >next
bad 'bytes'
{ head -c $((size - 5)) a.model && printf x && tail -c 4 a.model; } >next
bad 'checksum'
: >next
bad 'now.model'
printf 'no model\n' >next
bad 'now.model'
# Of another program: without a checksum, and with a bias that is no number.
/usr/bin/python3 -c 'import json, struct, sys
head = json.dumps({"weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
                   "bias": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}).encode()
head += b" " * (-len(head) % 8)
sys.stdout.buffer.write(struct.pack("<Q", len(head)) + head + struct.pack("<4f", 1, 2, 3, float("nan")))' >next
bad 'finite numbers are accepted'
rm now.model
ask 409 -X POST "$url/reload"
says answer 'cannot open'
mkdir now.model
ask 409 -X POST "$url/reload"
rmdir now.model
cp sparse.model next && mv next now.model
ask 200 -X POST "$url/reload"
says answer '{"generation":9}'
predict 200 '{"row": "1:1 2:1"}'
ask 200 "$url/health"
checks=$((checks + 1))
! grep -q error answer || wrong "a sound model leaves the error of a bad one"
stop TERM

# --- limits of time and number ------------------------------------------------------------------------------------------
# unfinished SECONDS: sends the beginning of a request, and waits for its answer.
unfinished() {
    { printf '{"row":' && sleep "$1"; } |
        curl -sS -m 20 -H 'Expect:' -T . -X POST -o /dev/null -w '%{http_code}' "$url/predict" >got 2>curl-said
}
start a.model --seconds 1
unfinished 5
expect "a request that is never whole is answered: $(cat got)" test "$(cat got)" = 000
says curl-said 'Empty reply from server'
predict 200 '{"row": "sun"}'
stop TERM
start a.model --connections 2 --threads 1
for number in 1 2; do
    { printf '{"row":' && sleep 5; } |
        curl -sSv -m 20 -H 'Expect:' -T . -X POST -o /dev/null "$url/predict" 2>trace.$number &
    until_true grep -q 'Connected to' trace.$number || wrong "connection $number"
done
status_is() {
    [ "$(curl -s -m 60 -o answer -w '%{http_code}' "$url/health")" = "$1" ]
}
expect "a third connection is not refused" until_true status_is 503
says answer 'more than 2 connections'
expect "connections that have ended count" until_true status_is 200
stop TERM

# --- a prediction that takes too long is given up -------------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 300000; i++) print i " 1:1" }' >classes
train --data classes --format libsvm --estimator sampled-softmax --epochs 1 --evaluate-train no --model classes.model
start classes.model --seconds 1 --rows 65536
{ printf '{"rows": [' && yes '[],' | head -n 60000 && printf '[]]}'; } >large
ask 503 -d @large "$url/predict"
says answer 'the prediction took longer than 1 s'
predict 200 '{"row": []}'
stop TERM

# --- the end: a request that has begun is answered ------------------------------------------------------------------------
start a.model
{ printf '{"row":' && sleep 1 && kill -TERM "$server" && sleep 1 && printf '"sun"}'; } |
    curl -sS -m 20 -H 'Expect:' -T . -X POST -D head -o answer -w '%{http_code}' "$url/predict" >got 2>curl-said
expect "a request that runs at the end is not answered: $(cat got curl-said)" test "$(cat got)" = 200
says answer '"best":[{"class":'
says head 'Connection: close'
stop TERM

# --- the command line -----------------------------------------------------------------------------------------------------
# fails STATUS MESSAGE ARGUMENT...
fails() {
    wanted=$1 message=$2
    shift 2
    code=0
    checks=$((checks + 1))
    "$serve" "$@" >answer 2>log || code=$?
    [ "$code" -eq "$wanted" ] || wrong "status $code, not $wanted: $*"
    says log "$message"
}
fails 2 'usage: serve MODEL'
fails 2 'usage: serve MODEL' a.model b.model
fails 2 '--port 65536: a number, 0 to 65535, is accepted' a.model --port 65536
fails 2 '--top x: a number, 1 to' a.model --top x
fails 2 'unrecognized option' a.model --no-such
fails 1 'cannot open' no.model
fails 1 '--address nowhere' a.model --address nowhere
fails 1 'text' text

# --- what no client should send -------------------------------------------------------------------------------------------
start a.model --seconds 2 --threads 2
checks=$((checks + 1))
/usr/bin/python3 "$here/serve_requests.py" "$url" "$requests" --line 'sun moon rain' >answer 2>&1 || wrong 'malformed requests'
cat answer
stop TERM

report
