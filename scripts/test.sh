#!/usr/bin/env bash
# Runs `cargo test --workspace` with the given arguments, each test binary behind scripts/run-tests.py, which takes the time of each test.
# Every package is selected, so that all such runs share one build.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
exec cargo --config "target.$host.runner=['$here/run-tests.py']" test --workspace --quiet "$@"
