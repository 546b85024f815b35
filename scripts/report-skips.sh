#!/usr/bin/env bash
# Runs a command and prints, after all else, how many tests were skipped and why ("0 skipped" when none). Exits as the command does.
# Tests and scripts append one line each, `NAME: REASON`, to the file that VMCP_SKIPPED names. Within another such run, only that one reports.
set -uo pipefail
[ -z "${VMCP_SKIPPED:-}" ] || exec "$@"
VMCP_SKIPPED=$(mktemp)
export VMCP_SKIPPED
trap 'rm -f "$VMCP_SKIPPED"' EXIT
# The command is a process group of its own, which gets every signal that comes here; it is waited for, so that the report comes last.
set -m
"$@" </dev/null &
command=$!
set +m
for signal in INT TERM HUP; do
  trap "kill -$signal -- -$command 2>/dev/null" "$signal"
done
while :; do
  wait "$command"
  status=$?
  # A signal ends the wait, not yet the command.
  kill -0 "$command" 2>/dev/null || break
done
count=$(wc -l <"$VMCP_SKIPPED")
echo "$count skipped$([ "$count" = 0 ] || echo :)"
sort "$VMCP_SKIPPED" | sed 's/^/  /'
exit "$status"
