#!/usr/bin/env bash
# Runs a command that fetches something, up to three times, for networks have bad moments; says at last what failed.
set -uo pipefail
for pause in 5 20 ''; do
  "$@" && exit
  status=$?
  [ -z "$pause" ] || { echo "failed ($status), tried again in $pause s: $*" >&2; sleep "$pause"; }
done
echo "failed three times ($status): $*" >&2
exit "$status"
