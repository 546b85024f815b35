#!/usr/bin/env bash
# Runs `cargo test --workspace` with the given arguments, each test binary behind scripts/run-tests.py, which takes the time of each test.
# Every package is selected, so that all such runs share one build; a binary that fails does not hide the next.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
export VMCP_MODEL_DIR=${VMCP_MODEL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/models/sentence-transformers/all-MiniLM-L6-v2}
# rustdoc looks for the jobserver of make, and says for each example that it is out of reach.
unset MAKEFLAGS MFLAGS
exec cargo --config "target.$host.runner=['$here/run-tests.py']" test --workspace --quiet --no-fail-fast "$@"
