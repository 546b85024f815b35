#!/usr/bin/env bash
# Makes targets one after another, `each.sh TARGET…`: all of them, even if one fails. Exits with 1 if one did.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The jobs of the make that runs this are its own.
unset MAKEFLAGS MFLAGS
failed=0
for target; do
  make --no-print-directory "$target" || failed=1
done
exit "$failed"
