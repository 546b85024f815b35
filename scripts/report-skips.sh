#!/usr/bin/env bash
# Runs a command and prints, after all else: seconds per step and the ten slowest tests, skipped tests and why ("0 skipped" when none),
# and what failed. Exits as the command does. Within another such run, only that one reports.
# Tests and scripts append lines to files that are named by variables: VMCP_SKIPPED (`NAME: REASON`), and those of scripts/stage.sh and
# scripts/run-tests.py.
set -uo pipefail
[ -z "${VMCP_SKIPPED:-}" ] || exec "$@"
records=$(mktemp -d)
export VMCP_SKIPPED=$records/skipped VMCP_STEPS=$records/steps VMCP_TIMES=$records/times VMCP_FAILED=$records/failed
touch "$VMCP_SKIPPED" "$VMCP_STEPS" "$VMCP_TIMES" "$VMCP_FAILED"
trap 'rm -rf "$records"' EXIT
start=$SECONDS
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

# Prints a table in Markdown, as docs/contributor/testing.md has it.
if [ "$(wc -l <"$VMCP_STEPS")" -gt 1 ]; then
  printf '\n| step | seconds | core seconds |\n|---|---|---|\n'
  while read -r took cores result name; do
    # Nothing was left to do.
    [ "$took $cores $result" != "0 0 0" ] || continue
    echo "| $name | $took$([ "$result" = 0 ] || echo ", failed") | $cores |"
  done <"$VMCP_STEPS"
  echo "| all | $((SECONDS - start)) | $(awk '{ sum += $2 } END { print sum }' "$VMCP_STEPS") |"
fi
if [ -s "$VMCP_TIMES" ]; then
  printf '\n| slowest tests | seconds |\n|---|---|\n'
  sort -rn "$VMCP_TIMES" | head -10 | while read -r took name; do echo "| $name | $took |"; done
  echo
fi
count=$(wc -l <"$VMCP_SKIPPED")
echo "$count skipped$([ "$count" = 0 ] || echo :)"
sort "$VMCP_SKIPPED" | sed 's/^/  /'
steps=$(awk '$3 != 0' "$VMCP_STEPS")
if [ -n "$steps" ]; then
  echo "failed steps:"
  cut -d ' ' -f 4- <<<"$steps" | sed 's/^/  /'
fi
if [ -s "$VMCP_FAILED" ]; then
  echo "failed tests:"
  sort -u "$VMCP_FAILED" | sed 's/^/  /'
fi
if [ -s "$VMCP_TIMES" ]; then
  # A binary that crashed is a failure of no single test.
  ended=$(wc -l <"$VMCP_TIMES") failed=$(grep -c :: "$VMCP_FAILED")
  echo "$((ended - failed)) passed, $(wc -l <"$VMCP_FAILED") failed"
fi
exit "$status"
