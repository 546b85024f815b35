#!/usr/bin/env bash
# Runs a command that uses the network up to three times, with pauses of 5 and 20 seconds; reports each failure.
set -uo pipefail
for pause in 5 20 ''; do
  "$@" && exit
  status=$?
  [ -z "$pause" ] || { echo "failed ($status), tried again in $pause s: $*" >&2; sleep "$pause"; }
done
echo "failed three times ($status): $*" >&2
exit "$status"
