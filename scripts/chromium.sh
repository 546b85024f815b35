#!/usr/bin/env bash
# Prints the path of a Chromium, for the tests of the web console. Fails, and says why, where there is none.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if program=$(command -v "$name") && "$program" --version >/dev/null 2>&1; then
    echo "$program"
    exit
  fi
done
echo "missing: chromium. Install it with this system's package manager (apt-get install chromium), or run make setup as a user with sudo" >&2
exit 1
