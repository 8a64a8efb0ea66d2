#!/usr/bin/env bash
# The Slurm scripts under the environment that slurmd gives them. usage: slurm_test.sh TRIAGE SOURCE_TREE
set -uo pipefail
triage=$1 tree=$2
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failed=0
check() {
  if ! eval "$2"; then
    echo "FAILED: $1"
    failed=$((failed + 1))
  fi
}
quiet_epilog() {   # the environment of slurmd: no search path, job and user only
  env -i TRIAGE_EPILOG_SETTINGS="$room/settings" "$@" "$tree/deploy/slurm/epilog"
}

cat > "$room/settings" <<END
TRIAGE=$triage
TRIAGE_LOGS=$room/logs
TRIAGE_SECONDS=60
END
mkdir -p "$room/logs/71" "$room/logs/72" "$room/logs/73"
cp "$tree/tests/corpus/recorded/ranks-oom.log" "$room/logs/71/a name with blanks.log"
printf 'step 1 loss 2.1\nstep 2 loss 2.0\n' > "$room/logs/72/rank0.log"
node=$(uname -n)
node=${node%%.*}
me=$(id -u)

out=$(quiet_epilog SLURM_JOB_ID=71 SLURM_JOB_UID="$me" SLURM_JOB_USER=x 2>&1)
check "a failed job: status 0" '[ $? -eq 0 ]'
check "a failed job: nothing is printed" '[ -z "$out" ]'
check "a failed job: the report says what killed it" 'grep -q gpu.oom "$room/logs/71/triage-$node.txt"'
quiet_epilog SLURM_JOB_ID=71 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "a second look does not read the first report" '[ "$(grep -c "^gpu.oom" "$room/logs/71/triage-$node.txt")" -eq 1 ]'
quiet_epilog SLURM_JOB_ID=72 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "a healthy job: status 0 and no report" '[ $? -eq 0 ] && [ -z "$(find "$room/logs/72" -name "triage-*")" ]'
quiet_epilog SLURM_JOB_ID=73 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "a job without logs: status 0" '[ $? -eq 0 ] && [ -z "$(ls "$room/logs/73")" ]'
printf 'step 1 loss 2.1\n' > "$room/logs/73/rank0.log"
printf 'srun: error: node1: task 1: Killed\n' > "$room/logs/slurm-73.out"
cp "$room/logs/slurm-73.out" "$room/logs/slurm-74.out"
quiet_epilog SLURM_JOB_ID=73 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "what srun says in the job's own output counts" 'grep -q "^proc.sigkill" "$room/logs/73/triage-$node.txt"'
quiet_epilog SLURM_JOB_ID=74 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "a job without a folder: the report stands beside its output" 'grep -q "^proc.sigkill" "$room/logs/triage-74-$node.txt"'
ln -s "$room/logs/slurm-74.out" "$room/logs/slurm-75.out"
quiet_epilog SLURM_JOB_ID=75 SLURM_JOB_UID="$me" SLURM_JOB_USER=x
check "a link in place of the output is not followed" '[ ! -e "$room/logs/triage-75-$node.txt" ]'
for job in '' '71; touch x' '../..' '7 1'; do
  quiet_epilog SLURM_JOB_ID="$job" SLURM_JOB_UID="$me"
  check "job '$job': status 0" '[ $? -eq 0 ]'
done
check "nothing was run out of a job's name" '[ ! -e x ]'
cat > "$room/slow" <<'END'
#!/bin/bash
sleep 60
END
chmod +x "$room/slow"
sed -i "s|^TRIAGE=.*|TRIAGE=$room/slow|; s|^TRIAGE_SECONDS=.*|TRIAGE_SECONDS=1|" "$room/settings"
began=$SECONDS
quiet_epilog SLURM_JOB_ID=72 SLURM_JOB_UID="$me"
check "a program that hangs is ended, status 0" '[ $? -eq 0 ] && [ $((SECONDS - began)) -lt 20 ]'

# Slurm makes no folder for the file that a batch script names as its output: one below a folder of the job ends the job before its first line.
check "job.sbatch: its output needs no folder of the job" '! grep -qE "^#SBATCH --output=.*%.*/" "$tree/deploy/slurm/job.sbatch"'
check "job.sbatch: its output is where the epilog looks" 'grep -qx "#SBATCH --output=/logs/slurm-%j.out" "$tree/deploy/slurm/job.sbatch"'

out=$(env -i SLURM_JOB_ID=71 TRIAGE_DUMPS="$room/dumps" NCCL_DEBUG=INFO /bin/sh "$tree/deploy/slurm/taskprolog")
check "task prolog: status 0" '[ $? -eq 0 ]'
check "task prolog: the flight recorder is on" 'grep -qx "export TORCH_NCCL_DUMP_ON_TIMEOUT=1" <<< "$out"'
check "task prolog: dumps go to the job's folder" 'grep -qx "export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$room/dumps/71/nccl_trace_rank_" <<< "$out" && [ -d "$room/dumps/71" ]'
check "task prolog: what the user has set stays" '! grep -q NCCL_DEBUG= <<< "$out"'
check "task prolog: every line is one that Slurm reads" '! grep -vqE "^export [A-Z_]+=[^ ]+$" <<< "$out"'
out=$(env -i TRIAGE_DUMPS=/proc/none /bin/sh "$tree/deploy/slurm/taskprolog")
check "task prolog: a folder that cannot be made is left out" '[ $? -eq 0 ] && ! grep -q TEMP_FILE <<< "$out"'

echo "$failed failed"
[ "$failed" -eq 0 ]
