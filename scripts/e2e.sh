#!/usr/bin/env bash
# Brings a Kubernetes node up, runs the scenarios on it, and takes it down. KEEP=1 leaves it up; arguments choose scenarios.
# With KUBECONFIG and VMCP_E2E=1, the cluster that KUBECONFIG names is used instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scenarios=(cargo test --workspace --quiet --test cluster)

if [ -n "${VMCP_E2E:-}" ] && [ -n "${KUBECONFIG:-}" ]; then
  exec "${scenarios[@]}" -- "$@"
fi
if [ "$(id -u)" != 0 ] || [ "$(uname)" != Linux ]; then
  echo "make e2e: skipped; bringing a node up takes Linux and root, or set KUBECONFIG and VMCP_E2E=1 to use a cluster that is there"
  exit 0
fi

step() {
  local start=$SECONDS
  "${@:2}" 9>&-
  printf '%s: %s s\n' "$1" "$((SECONDS - start))"
}

cluster=("${CARGO_TARGET_DIR:-target}/debug/vmcp-cluster" --name "${E2E_NODE:-e2e}")
down() {
  if [ -n "${KEEP:-}" ]; then
    echo "the node is up still: ${cluster[*]} exec kubectl get pods -A; ${cluster[*]} down"
  else
    "${cluster[@]}" down
  fi
}

scripts/setup-e2e.sh
# As `make test` builds them, so that one build serves both.
step "building the tests" cargo build --workspace --quiet --bins --tests
step "building the scenarios" "${scenarios[@]}" --no-run
exec 9>"${TMPDIR:-/tmp}/vmcp-${E2E_NODE:-e2e}.lock"
flock --nonblock 9 || { echo "waiting for another run to end"; flock 9; }
"${cluster[@]}" down # what an interrupted run left
trap down EXIT
step "bringing the node up" "${cluster[@]}" up
step "scenarios" "${cluster[@]}" exec "${scenarios[@]}" -- "$@"
