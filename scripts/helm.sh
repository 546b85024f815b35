#!/usr/bin/env bash
# Prints the path of helm: $HELM, or the one on PATH, or the one that the tests build. Fails when there is none.
set -euo pipefail
built=$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}"/vmcp/kubernetes/*/helm 2>/dev/null | sort -V | tail -1 || true)
for helm in "${HELM:-}" "$(command -v helm || true)" "$built"; do
  [ -n "$helm" ] && [ -x "$helm" ] && { echo "$helm"; exit; }
done
echo "missing: helm. Install it (helm.sh/docs/intro/install), or let the tests build it: tests/kubernetes/components/build.sh" >&2
exit 1
