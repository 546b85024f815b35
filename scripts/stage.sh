#!/usr/bin/env bash
# Runs a command as a named step, `stage.sh NAME COMMAND…`: prints how long it took last time, each minute how far it is, and how long it took.
# Appends `SECONDS CORE_SECONDS STATUS NAME` to the file that VMCP_STEPS names: the second is the time of all its processes on all cores. Within another step only the outer one reports.
set -uo pipefail
name=$1
shift
[ -z "${VMCP_STAGE:-}" ] || exec "$@"
export VMCP_STAGE=$name
seconds=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/seconds
mkdir -p "$seconds"
seconds=$seconds/${name//[^A-Za-z0-9]/-}
last=$(cat "$seconds" 2>/dev/null) && last="$last s last time" || last="first time here"
# Each test binary that runs keeps one line there: how many of its tests have ended.
VMCP_PROGRESS=$(mktemp -d)
export VMCP_PROGRESS

start=$SECONDS
printf '\n== %s (%s)\n' "$name" "$last" >&2
pulse() {
  # Without the streams of the step, which a sleep that outlives it would hold open.
  while sleep "${VMCP_PULSE:-60}" </dev/null >/dev/null 2>&1; do
    printf '== %s: %s s so far (%s)%s\n' "$name" "$((SECONDS - start))" "$last" "$(cat "$VMCP_PROGRESS"/* 2>/dev/null | sed 's/^/; /' | tr -d '\n')" >&2
  done
}
pulse &
pulse=$!
trap 'kill "$pulse" 2>/dev/null; rm -rf "$VMCP_PROGRESS"' EXIT
"$@"
status=$?
took=$((SECONDS - start))
if [ "$status" = 0 ]; then
  echo "$took" >"$seconds"
  printf '== %s: %s s\n' "$name" "$took" >&2
else
  printf '== %s: FAILED after %s s\n' "$name" "$took" >&2
fi
# The second line of `times` is of ended child processes: 1m2.345s 0m6.789s. A pipe would ask a subshell, which has none.
times >"$VMCP_PROGRESS/times"
cores=$(awk -F '[ms ]+' 'NR == 2 { printf "%d", ($1 + $3) * 60 + $2 + $4 }' "$VMCP_PROGRESS/times")
[ -z "${VMCP_STEPS:-}" ] || printf '%s %s %s %s\n' "$took" "$cores" "$status" "$name" >>"$VMCP_STEPS"
exit "$status"
