#!/usr/bin/env bash
# Validates a bundle of OLM (deploy/olm unless another folder is named) by the rules of OLM and of OperatorHub, with the
# Operator Framework's own operator-verify. With --install the tool is built from its Go modules, once; without, and where
# it is missing, the check is skipped and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=v0.37.0
tools=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/tools/operator-verify-$version
if [ "${1:-}" = --install ]; then
  shift
  [ -x "$tools/operator-verify" ] || GOBIN=$tools scripts/retry.sh go install "github.com/operator-framework/api/cmd/operator-verify@$version"
elif [ ! -x "$tools/operator-verify" ]; then
  echo "olm-validate: operator-verify is missing, which \`make olm-validate\` builds" >>"${VMCP_SKIPPED:-/dev/stderr}"
  exit
fi
bundle=${1:-deploy/olm}
# Findings do not change its exit code.
findings=$("$tools/operator-verify" manifests --operatorhub_validate --object_validate "$bundle/manifests" 2>&1)
[ -z "$findings" ] || echo "$findings" >&2
! grep -q 'level=\(error\|fatal\)' <<<"$findings"
