#!/usr/bin/env bash
# What the tools of others say of deploy/, where they are installed. usage: tools_test.sh TRIAGE SOURCE_TREE
set -uo pipefail
triage=$1 deploy=$2/deploy
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
failed=0
has() {
  command -v "$1" >/dev/null && return 0
  echo "skipped: $1 is not installed"
  return 1
}
fail() {
  echo "FAILED: $1"
  failed=$((failed + 1))
}

if has systemd-analyze; then
  for dropin in '' kernel-log read-all-logs; do
    sed "s|/usr/bin/triage|$triage|" "$deploy/systemd/triaged.service" > "$room/triaged.service"
    rm -rf "$room/triaged.service.d"
    if [ -n "$dropin" ]; then
      # One file, as systemd joins them: later assignments count.
      cat "$deploy/systemd/$dropin.conf" >> "$room/triaged.service"
    fi
    said=$(systemd-analyze verify "$room/triaged.service" 2>&1 | grep triaged.service)
    [ -z "$said" ] || fail "systemd-analyze verify $dropin: $said"
    exposure=$(systemd-analyze security --offline=true --no-pager "$room/triaged.service" 2>/dev/null | sed -n 's/.*exposure level for [^:]*: \([0-9.]*\).*/\1/p')
    echo "exposure of the unit${dropin:+ with $dropin}: $exposure"
    awk -v e="${exposure:-10}" 'BEGIN { exit !(e < 2.5) }' || fail "exposure $exposure of the unit $dropin"
  done
fi
if has promtool; then
  promtool check rules "$deploy/prometheus/alerts.yaml" || fail "promtool"
fi
if has shellcheck; then
  shellcheck "$deploy"/slurm/{taskprolog,epilog,job.sbatch} "$deploy/package" "$deploy"/debian/{postinst,prerm,postrm} || fail shellcheck
fi
if has kubectl; then
  for folder in base overlays/example; do
    kubectl kustomize "$deploy/kubernetes/$folder" > "$room/out.yaml" || fail "kustomize $folder"
    grep -q '^kind: DaemonSet$' "$room/out.yaml" || fail "kustomize $folder gives no DaemonSet"
  done
fi
echo "$failed failed"
[ "$failed" -eq 0 ]
