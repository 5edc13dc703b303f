#!/bin/sh
# The main job on this machine, and again on emulated AWS Batch: real work that runs, streams its
# logs, fails with a reason, and dies as it should. Every line behind a $ is a command that you can type yourself.
set -u
cd "$(dirname "$0")/.." || exit 1
WHERRY_HOME=$(mktemp -d)
WHERRY_RUNTIME_DIR=$(mktemp -d)
export WHERRY_HOME WHERRY_RUNTIME_DIR
trap 'wherry emulator stop 2> /dev/null > /dev/null; wherry prune --all 2> /dev/null > /dev/null; rm -rf "$WHERRY_HOME" "$WHERRY_RUNTIME_DIR"' EXIT
trap 'exit 130' INT TERM
failures=0

say() { printf '\n\033[1m%s\033[0m\n' "$1" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }

# show COMMAND...: print it as it would be typed.
show() {
    printf '$'
    for word in "$@"; do
        case $word in
            *[!A-Za-z0-9_./=,:-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}

# run EXPECTED COMMAND...: show the command, run it, and compare its exit code.
run() {
    expected=$1
    shift
    show "$@"
    "$@"
    code=$?
    [ "$code" = "$expected" ] || {
        echo "the demo expected exit code $expected and got $code" >&2
        failures=$((failures + 1))
    }
}

say '1. Hello, on this machine: logs stream, the exit code passes through.'
run 0 wherry run utils.echo --msg 'hello from Wherry'

say '2. Real work: a support vector machine on scikit-learn'\''s digits, three values of C as an array.'
run 0 wherry run --array 3 utils.python --script examples/svm.py -- 0.001 0.1 10

say '   The scores, from the logs, by another command:'
run 0 wherry log --regex accuracy svm

say '3. A job that fails says why.'
run 1 wherry run utils.python --script examples/broken.py
run 0 wherry describe broken

say '4. A gang starts together and fails together; a retry starts it again.'
run 9 wherry run utils.sh --num-replicas 3 --max-retries 1 \
    'test $WHERRY_REPLICA_ID = 2 && { sleep 0.2; echo "I give up"; exit 9; }; echo working; sleep 60'

say '5. Detached: the app goes on without us; any terminal can look, follow and cancel.'
run 0 wherry run --detach --name nap utils.sh 'echo sleeping; sleep 600'
run 0 wherry status nap
run 0 wherry cancel nap --reason 'the demo is over'
wherry wait nap 2> /dev/null
run 0 wherry list

say '6. The same array on AWS Batch, emulated on this machine; processes stand in for containers.'
run 0 wherry emulator start --detach --port 0 --engine process
eval "$(wherry emulator env)"
say '   The code goes along: --workspace sends the folder through a store, and only what has changed.'
run 0 wherry run --array 3 --name svm-on-aws --wait --scheduler aws_batch \
    -cfg queue=main,store=s3://wherry/demo --workspace examples \
    utils.python --script svm.py -- 0.001 0.1 10
run 0 wherry log --regex accuracy main:svm-on-aws

say '   And a job there that fails: why?'
run 1 wherry run --name broken-on-aws --wait --scheduler aws_batch \
    -cfg queue=main,store=s3://wherry/demo --workspace examples utils.python --script broken.py
run 0 wherry why main:broken-on-aws

say '7. Python functions as jobs: load, train and score, each a job; here, in containers, on AWS Batch.'
run 0 python examples/experiment.py local
run 0 python examples/experiment.py aws wherry main
if docker image inspect wherry-test/python > /dev/null 2>&1; then
    run 0 python examples/experiment.py docker wherry-test/python
else
    echo 'left out: in containers (no Docker Engine with the image wherry-test/python; `make test` makes it)'
fi
say '   A map from the command line: a process, a log and an exit code for each line.'
printf '%s\n' 1 2 three > "$WHERRY_HOME/numbers.txt"
run 1 wherry map examples/roots.py:root --each-line "$WHERRY_HOME/numbers.txt"
run 0 wherry jobs
run 0 wherry emulator stop

[ "$failures" = 0 ] && say 'Done: all ran, and what should fail has failed; nothing is left running.'
exit "$failures"
