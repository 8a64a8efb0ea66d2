#!/usr/bin/env bash
# The command line as a user meets it. usage: cli_test.sh TRIAGE SOURCE_DIR
set -u
triage=$1
data=$2/tests/corpus
snapshots=$2/tests/snapshots
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# expect NAME STATUS TEXT -- COMMAND...   TEXT is a fixed string of stdout and stderr together, or empty
expect() {
  local name=$1 status=$2 text=$3
  shift 4
  "$@" >out 2>err </dev/null
  local got=$?
  if [ $got -ne "$status" ] || { [ -n "$text" ] && ! cat out err | grep -qF -- "$text"; }; then
    echo "FAILED: $name: status $got instead of $status, or no '$text' in:"
    cat out err | head -20
    failures=$((failures + 1))
  fi
}
# refuse NAME TEXT: the last output must not hold it
refuse() {
  if cat out err | grep -qF -- "$2"; then
    echo "FAILED: $1: output holds '$2'"
    failures=$((failures + 1))
  fi
}
oom=$data/recorded/ranks-oom.log
healthy=$data/recorded/megatron-healthy.log

expect "version" 0 "rules" -- "$triage" --version
expect "no command" 2 "" -- "$triage"
expect "unknown option" 2 "" -- "$triage" scan --nonsense x
expect "a failure" 1 "gpu.oom.capacity" -- "$triage" scan "$oom"
refuse "no colour in a pipe" $'\x1b'
expect "a healthy log" 0 "no failure found" -- "$triage" scan "$healthy"
expect "a snapshot" 0 "optimizer states" -- "$triage" snapshot "$snapshots/optimizer_first_step.pickle.gz"
expect "a snapshot as JSON" 0 '"requested_bytes": 117440512' -- "$triage" snapshot --format json "$snapshots/optimizer_first_step.pickle.gz"
expect "two snapshots" 0 "activations: 126.62 GiB -> 20.04 GiB" -- "$triage" snapshot "$snapshots/capacity_forward.pickle.gz" --compare "$snapshots/capacity_forward-with-checkpointing.pickle.gz"
expect "a folder of ranks" 0 "uneven" -- "$triage" snapshot "$snapshots"
expect "a page" 0 "" -- "$triage" snapshot "$snapshots/ok_train.pickle.gz" --html page.html
grep -q "modeling_llama.py" page.html || { echo "FAILED: the page holds no stacks"; failures=$((failures + 1)); }
expect "no snapshot" 2 "not a pickle" -- "$triage" snapshot "$oom"
expect "a log with its snapshot" 1 "filled by  optimizer" -- "$triage" scan "$data/recorded/optimizer_first_step.log" "$snapshots/optimizer_first_step.pickle.gz"
expect "json" 1 '"tried_bytes": 137438953472' -- "$triage" scan --format json "$oom"
expect "markdown" 1 "### Fixes" -- "$triage" scan --format markdown "$oom"
cp "$oom" 'a b%#?.log'
expect "sarif of an odd name" 1 '"uri": "a%20b%25%23%3F.log"' -- "$triage" scan --format sarif 'a b%#?.log'
expect "an empty name of a database" 2 "the name is empty" -- "$triage" scan --db "" "$oom"
expect "sarif" 1 '"startLine"' -- "$triage" scan --format sarif "$oom"
expect "one incident of it" 1 "" -- "$triage" scan --format json "$oom"
[ "$(grep -c '"fingerprint"' out)" = 1 ] || { echo "FAILED: not one incident"; failures=$((failures + 1)); }

# inputs
expect "a snapshot through a pipe" 1 "filled by  optimizer" -- bash -c "zcat '$snapshots/optimizer_first_step.pickle.gz' | '$triage' scan '$data/recorded/optimizer_first_step.log' -"
expect "its figures" 0 "optimizer states" -- bash -c "zcat '$snapshots/optimizer_first_step.pickle.gz' | '$triage' snapshot -"
expect "what is guessed is said so" 0 "gradients  (guessed" -- "$triage" snapshot "$snapshots/optimizer_first_step.pickle.gz"
expect "in a scan too" 1 "[guessed]" -- "$triage" scan "$data/recorded/optimizer_first_step.log" "$snapshots/optimizer_first_step.pickle.gz"
dumps=$2/tests/parsers/snapshot/data
expect "a core through a pipe" 1 "SIGSEGV" -- bash -c "zcat '$dumps/segv.core.gz' | '$triage' scan -"
expect "stdin" 1 "gpu.oom.capacity" -- bash -c "'$triage' scan - < '$oom'"
cp "$oom" a.log; gzip -k a.log; tar cf a.tar a.log; tar czf a.tgz a.log; mkdir folder; cp a.log folder/train.log; cp "$healthy" folder/ok.log
expect "gz" 1 "a.log.gz:" -- "$triage" scan a.log.gz
expect "tar" 1 "a.tar!a.log:" -- "$triage" scan a.tar
expect "tar.gz" 1 "a.tgz!a.log:" -- "$triage" scan a.tgz
expect "folder" 1 "folder/train.log:" -- "$triage" scan folder
expect "glob" 1 "folder/train.log:" -- "$triage" scan 'folder/*.log'
expect "a glob that matches nothing" 2 "no file matches" -- "$triage" scan 'nothing/*.log'
printf '2026-01-01 10:00:00 [rank0]: %s\n' "$(grep -m1 OutOfMemoryError "$oom")" >dated.log
expect "since before" 1 "gpu.oom" -- "$triage" scan --since 2026-01-01T09:00:00Z dated.log
expect "since after" 0 "no failure found" -- "$triage" scan --since 2026-01-01T11:00:00Z dated.log
expect "a bad since" 2 "--since is 'soon'" -- "$triage" scan --since soon "$oom"

# bad input: a clear error, the rest still scanned
: >empty.log
expect "empty file" 0 "no failure found in 1 file" -- "$triage" scan empty.log
expect "empty file is named" 0 "lost: an empty file (0 bytes) at empty.log" -- "$triage" scan empty.log
expect "missing file" 2 "--> gone.log" -- "$triage" scan gone.log
expect "missing file beside a failing log" 1 "--> gone.log" -- "$triage" scan gone.log "$oom"
head -c 100000 /dev/urandom >binary.log
expect "binary file" 2 "holds no text" -- "$triage" scan binary.log
expect "binary file beside a failing log" 1 "gpu.oom.capacity" -- "$triage" scan binary.log "$oom"
head -c 3000 a.log.gz >cut.log.gz 2>/dev/null; head -c $(($(stat -c %s a.log.gz) / 2)) a.log.gz >cut.log.gz
expect "a packed file cut in the middle" 1 "breaks off" -- "$triage" scan cut.log.gz
if [ "$(id -u)" -ne 0 ]; then
  cp a.log secret.log; chmod 000 secret.log
  expect "no permission" 2 "Permission denied" -- "$triage" scan secret.log
fi
mkdir packed; cp a.log.gz packed/; tar cf packed.tar packed
expect "a packed log inside an archive" 1 "packed.tar!packed/a.log.gz:" -- "$triage" scan packed.tar
expect "packed bytes from a pipe" 1 "stdin:" -- bash -c "'$triage' scan - <a.log.gz"
# a log cut in the middle of the message
text='torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 Gi'
printf '%s' "$text" >cut.log
expect "a log cut in the message" 1 "gpu.oom" -- "$triage" scan cut.log
head -c 3000000 /dev/zero | tr '\0' 'x' >long.log; printf '\n%s\n' "$text" >>long.log
expect "a line of 3 MB" 1 "line longer than" -- "$triage" scan long.log

# names and lines that would steer a terminal or a ticket
printf '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/a/\342\200\256b.py", line 3, in main\n[rank0]: ValueError: @everyone \033[2J \302\23331m \342\200\256 \2331m see #12 ``` | a |\n' >$'evil\033[31m\342\200\256.log'
for kind in text markdown; do
  expect "a hostile line as $kind" 1 "user.exception" -- "$triage" scan --format $kind evil*.log
  refuse "no escape in $kind" $'\x1b'
  refuse "no C1 control in $kind" $'\xc2\x9b'
  refuse "no override of the direction in $kind" $'\xe2\x80\xae'
  iconv -f UTF-8 -t UTF-8 out >/dev/null || { echo "FAILED: $kind is no UTF-8"; failures=$((failures + 1)); }
done
grep -v '^\[rank0\]' out | grep -q '@everyone' && { echo "FAILED: a mention in markdown"; failures=$((failures + 1)); }
expect "a hostile name in an error" 2 "no file matches" -- "$triage" scan $'gone\033[31m\302\233.log'
refuse "no escape in an error" $'\x1b'
refuse "no C1 control in an error" $'\xc2\x9b'
printf 'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB. and no more\n' >bare.log
expect "no figure, no claim" 1 "does not say how much was free" -- "$triage" scan bare.log
refuse "unknown is not zero" "0 B free"
# what gives bytes for ever, or never
expect "a device" 2 "a device is no log" -- timeout 20 "$triage" scan /dev/zero
mkdir odd; cp "$oom" odd/x.log; mkfifo odd/pipe.log
expect "a pipe that a pattern meets" 1 "gpu.oom.capacity" -- timeout 20 "$triage" scan 'odd/*.log'
mkdir links; cp "$oom" links/a.log; ln -s . links/self; ln -s ../links links/up; ln -s b links/a; ln -s a links/b; ln -s nowhere links/gone.log; mkfifo links/pipe.log
expect "of them all one file" 1 "gpu.oom.capacity" -- timeout 20 "$triage" scan links
refuse "no fault of the folder" "in part only"
expect "a full standard output" 2 "could not be written" -- bash -c "'$triage' scan '$healthy' >/dev/full"
expect "a full standard output of history" 2 "could not be written" -- bash -c "'$triage' rules list >/dev/full"
expect "a reader that leaves" 1 "" -- bash -c "set -o pipefail; '$triage' scan --format json --db piped.db '$oom' | true"
expect "and the answer is kept" 0 "gpu.oom.capacity" -- "$triage" history --db piped.db

# the store
expect "keep" 1 "" -- "$triage" scan --db kept.db "$oom"
sum=$("$triage" history --db kept.db --format json | sha256sum)
expect "keep again" 1 "" -- "$triage" scan --db kept.db "$oom"
[ "$sum" = "$("$triage" history --db kept.db --format json | sha256sum)" ] || { echo "FAILED: scanning twice changed the history"; failures=$((failures + 1)); }
expect "history" 0 "gpu.oom.capacity" -- "$triage" history --db kept.db
id=$("$triage" history --db kept.db | head -1 | cut -d' ' -f1)
expect "show" 0 "fix 1" -- "$triage" show "$id" --db kept.db
expect "feedback" 0 "helped 1 of 1" -- "$triage" feedback "$id" --db kept.db --fix loss.chunked --helped --note "it ran"
expect "show with feedback" 0 "it ran" -- "$triage" show "$id" --db kept.db
if command -v sqlite3 > /dev/null; then   # as the service marks it
  cp kept.db live.db
  sqlite3 live.db "INSERT INTO tracked SELECT id, job, attempt, 0, kept_at, kept_at, 3 FROM incident"
  expect "history tells what is open" 0 "  open" -- "$triage" history --db live.db
  expect "history as JSON tells it" 0 '"state": "open"' -- "$triage" history --db live.db --format json
  expect "show tells it" 0 "(open, opened " -- "$triage" show "$id" --db live.db
  sqlite3 live.db "UPDATE tracked SET closed = 1"
  expect "show tells what is closed" 0 "(closed, opened " -- "$triage" show "$id" --db live.db
else
  echo "skipped: no sqlite3 here to mark an incident as the service does"
fi
expect "feedback without a word" 2 "--helped or --failed" -- "$triage" feedback "$id" --db kept.db --fix loss.chunked
expect "feedback on a fix that is none" 2 "no fix has the id 'loss.chunkd'" -- "$triage" feedback "$id" --db kept.db --fix loss.chunkd --helped
mkdir sealed; cp kept.db sealed/; chmod 444 sealed/kept.db; chmod 555 sealed
expect "a database that may only be read" 0 "gpu.oom.capacity" -- "$triage" history --db sealed/kept.db
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  chmod 755 .; expect "and by another user" 0 "gpu.oom.capacity" -- setpriv --reuid=65534 --regid=65534 --clear-groups "$triage" history --db sealed/kept.db
fi
expect "history of a log" 2 "file is not a database" -- "$triage" history --db "$oom"
expect "history of a folder" 2 "a folder is no database" -- "$triage" history --db .
: >zero.db
expect "history of an empty file" 2 "kept anything" -- "$triage" history --db zero.db
expect "show of nothing" 2 "no incident begins" -- "$triage" show ffffff --db kept.db
expect "history of no file" 2 "no database" -- "$triage" history --db none.db
[ -e none.db ] && { echo "FAILED: history made a database"; failures=$((failures + 1)); }
cp binary.log bad.db
expect "a damaged database" 2 "--> bad.db" -- "$triage" scan --db bad.db "$oom"
expect "the answer is still printed" 2 "gpu.oom.capacity" -- "$triage" scan --db bad.db "$oom"
expect "a database where no folder is" 2 "nowhere/x.db" -- "$triage" scan --db nowhere/x.db "$oom"
expect "a full disk" 2 "error:" -- bash -c "trap '' XFSZ; ulimit -f 8; '$triage' scan --db full.db '$oom'"

seq 0 2 20000 | sed 's/.*/[rank&]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.10 GiB is free./' >many.log
expect "ten thousand ranks fit a screen" 1 "more (--all)" -- bash -c "'$triage' scan many.log; exit \$(( \$('$triage' scan many.log | wc -l) > 60 ? 9 : 1 ))"
expect "the type of an exception that is cut" 1 "gpu.oom" -- "$triage" scan <(printf 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    main()\ntorch.OutOfMemoryError: CUD')

# rules
expect "rules check" 0 "all hold" -- "$triage" rules check
expect "rules list" 0 "torch.cuda.oom" -- "$triage" rules list
expect "rules explain" 0 "torch.cuda.oom" -- "$triage" rules explain "$text"
"$triage" rules new "FooError: lost the frobnicator 17 of rank 3" >mine.yaml
expect "a new rule of nothing" 2 "no message" -- "$triage" rules new ' '
expect "a new rule is a rule" 0 "all hold" -- "$triage" rules check mine.yaml
printf -- '- id: my.rule\n  kind: user.mine\n  role: root\n  match: "broken (("\n  sources: [mine]\n  examples: ["broken (("]\n  counter_examples: ["fine"]\n' >broken.yaml
expect "a bad pattern" 2 "broken.yaml:" -- "$triage" rules check broken.yaml
expect "a bad rule file stops a scan" 2 "broken.yaml:" -- "$triage" scan --rules broken.yaml "$oom"
printf -- '- id: my.rule\n  kind: user.mine\n  role: root\n  match: "frobnicator [0-9]+ lost"\n  summary: s\n  help: h\n  sources: [mine]\n  examples: ["frobnicator x lost"]\n  counter_examples: ["fine"]\n' >failing.yaml
expect "an example that does not match" 2 "failing.yaml:" -- "$triage" rules check failing.yaml

# run: bytes and status unchanged
"$triage" run -- bash -c 'printf "a\0b\r\n"; printf "err\n" >&2; exit 0' >out 2>err
[ $? = 0 ] && cmp -s out <(printf 'a\0b\r\n') && cmp -s err <(printf 'err\n') || { echo "FAILED: run changed the output"; failures=$((failures + 1)); }
expect "run keeps the status" 7 "gpu.oom" -- "$triage" run -- bash -c "cat '$oom'; exit 7"
expect "run tells of a signal" 137 "proc.sigkill" -- "$triage" run -- bash -c 'kill -9 $$'
# What the command leaves behind may print for ever: a signal ends waiting for it, and so do some seconds.
timeout 20 "$triage" run -- bash -c 'setsid bash -c "for i in {1..150}; do echo tick; sleep 0.1; done" & exit 4' >out 2>err &
sleep 1; kill -TERM $(pgrep -P $!) 2>/dev/null
begin=$SECONDS; wait $!
status=$?
[ $status = 4 ] && [ $((SECONDS - begin)) -lt 6 ] || { echo "FAILED: run with a process left behind: status $status after $((SECONDS - begin)) s"; failures=$((failures + 1)); }
expect "run of nothing" 127 "cannot be started" -- "$triage" run -- ./no-such-command
timeout 20 "$triage" run -- bash -c 'trap "echo got it; exit 3" TERM; echo ready; while :; do sleep 0.1; done' >out 2>err &
pid=$!
for _ in $(seq 50); do grep -q ready out 2>/dev/null && break; sleep 0.1; done
child=$(pgrep -P "$pid" -x triage || echo "$pid"); kill -TERM "$child"
wait "$pid"; status=$?
[ $status = 3 ] && grep -q "got it" out || { echo "FAILED: run did not forward SIGTERM (status $status)"; failures=$((failures + 1)); }

# what `run` is started without, or under
while IFS='|' read -r name status text line; do
  expect "run: $name" "$status" "$text" -- timeout -s KILL 20 bash -c "triage='$triage'; $line"
done <<'END'
SIGCHLD ignored|4||trap '' CHLD; "$triage" run -- sh -c 'exit 4'
a reader that leaves ends the command as without us|0|141|set -o pipefail; "$triage" run -- yes | head -1 >/dev/null; echo ${PIPESTATUS[0]} 
no standard output|3||"$triage" run -- sh -c 'echo hi; exit 3' >&-
no standard error|3|hi|"$triage" run -- sh -c 'echo hi; echo ho >&2; exit 3' 2>&-
no standard streams|5||"$triage" run -- sh -c 'exit 5' <&- >&- 2>&-
a child that closes its output|5||"$triage" run -- sh -c 'exec >&- 2>&-; exit 5'
a full disk under --log|2|the log file is not complete|"$triage" run --log /dev/full -- sh -c 'echo hi; exit 2'
status 255|255||"$triage" run -- sh -c 'exit 255'
a signal|139|SIGSEGV|"$triage" run -- sh -c 'kill -SEGV $$'
no permission to start|126|cannot be started|"$triage" run -- /etc/passwd
END
expect "a database is not taken for a closed output" 1 "could not be written" -- bash -c "'$triage' scan --db unspoilt.db '$oom' >&-"
expect "and holds the incident" 0 "gpu.oom.capacity" -- "$triage" history --db unspoilt.db
expect "a closed standard input" 2 "stdin" -- bash -c "'$triage' scan - <&-"

[ $failures -eq 0 ] && echo "command line: all good"
exit $((failures > 0))
