#!/usr/bin/env bash
# Brings a Kubernetes node up, runs the scenarios on it, and takes it down. KEEP=1 leaves it up; arguments select scenarios.
# With VMCP_E2E=1, the cluster that KUBECONFIG names is used instead; LOAD or REGISTRY says how images get into it.
# SCOPE=namespace runs the scenarios under releases of one namespace each; without it, some of them run so in the end.
# Without a cluster and without root, every scenario is skipped and the exit status is 0. See docs/contributor/testing.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# One binary after the other: the second uninstalls the operator that the first needs.
scenarios=(scripts/test.sh --test cluster --test release)
# Under releases with `scope: namespace`; the life of a release is one for the cluster.
namespaced=(env VMCP_E2E_SCOPE=namespace scripts/test.sh --test cluster)
# Scenarios wait for pods most of the time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}
cluster=("${CARGO_TARGET_DIR:-target}/debug/vmcp-cluster" --name "${E2E_NODE:-e2e}")
end=true
running=

# Runs a step in a process group of its own, so that a signal ends it with everything that it started.
step() {
  set -m
  scripts/stage.sh "e2e: $1" "${@:2}" </dev/null 9>&- &
  running=$!
  set +m
  wait "$running"
  running=
}
finish() {
  trap '' INT TERM HUP
  [ -z "$running" ] || { kill -TERM -- "-$running" && sleep 1; kill -KILL -- "-$running"; } 2>/dev/null || true
  "$end"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Takes the lock of a cluster, which is held until this script ends: two runs must not share one.
alone() {
  command -v flock >/dev/null || return 0
  exec 9>"${TMPDIR:-/tmp}/vmcp-$1.lock"
  flock --nonblock 9 || { echo "waiting for another run to end"; flock 9; }
}

# Prints the names of the scenarios, as libtest does.
names() {
  local module
  for module in $(sed -n 's/^    mod \(.*\);$/\1/p' tests/kubernetes/tests/cluster.rs tests/kubernetes/tests/release.rs); do
    sed -n "/^#\[tokio::test\]/{n;s/^async fn \([a-z0-9_]*\).*/scenario::$module::\1/p}" "tests/kubernetes/tests/scenario/$module.rs"
  done
}

build() {
  # Packages as in `make test`, so that one build serves both.
  step "building the tests" cargo build --workspace --bins --tests
  step "building the scenarios" "${scenarios[@]}" --no-run
}

# Runs the scenarios, each time behind the command of the arguments up to `--`; those behind it select scenarios.
run_scenarios() {
  local before=()
  while [ "$1" != -- ]; do before+=("$1") && shift; done
  if [ "${SCOPE:-}" = namespace ]; then
    step "scenarios, scope: namespace" "${before[@]}" "${namespaced[@]}" "$@"
    return
  fi
  step "scenarios" "${before[@]}" "${scenarios[@]}" "$@"
  # All that an operator does by its Roles: pods of each kind, configuration of running pods, admission.
  [ $# -gt 1 ] || step "some of them, scope: namespace" "${before[@]}" "${namespaced[@]}" -- serving a_tenant
}

if [ -n "${VMCP_E2E:-}" ]; then
  if [ -n "${REGISTRY:-}${LOAD:-}" ] && [ "$(id -u)" != 0 ]; then
    echo "make e2e: REGISTRY and LOAD build images, which takes root; run: sudo -E env PATH=\"\$PATH\" make e2e …" >&2
    exit 1
  fi
  scratch=$(mktemp -d)
  end=remove_scratch
  remove_scratch() { rm -rf "$scratch"; }
  # KUBECONFIG may be a list of files: one file with the current context replaces it.
  kubectl config view --raw --flatten --minify >"$scratch/kubeconfig" || { echo "make e2e: VMCP_E2E=1 needs kubectl, and a KUBECONFIG with a current context" >&2; exit 1; }
  export KUBECONFIG=$scratch/kubeconfig
  build
  alone existing
  if [ -n "${REGISTRY:-}" ]; then
    scripts/setup-e2e.sh
    step "pushing the images" "${cluster[@]}" push "$REGISTRY" >"$scratch/images"
    set -a
    . "$scratch/images"
    set +a
  elif [ -n "${LOAD:-}" ]; then
    scripts/setup-e2e.sh
    step "building the images" "${cluster[@]}" images >"$scratch/images"
    while read -r archive; do
      step "$LOAD $archive" $LOAD "$archive"
    done <"$scratch/images"
  fi
  clear_cluster() {
    if [ -n "${KEEP:-}" ]; then
      echo "the objects of the scenarios are still there; remove them: ${cluster[*]} clear"
    else
      "${cluster[@]}" clear
    fi
    remove_scratch
  }
  step "looking at the cluster" "${cluster[@]}" prepare
  end=clear_cluster
  run_scenarios -- "$@"
  exit
fi

if [ "$(id -u)" != 0 ] || [ "$(uname)" != Linux ]; then
  # In CI everything that can run must run: become root where no password is asked for.
  if [ -n "${CI:-}" ] && [ "$(uname)" = Linux ] && sudo -n true 2>/dev/null; then
    exec sudo -n -E env PATH="$PATH" HOME="$HOME" scripts/e2e.sh "$@"
  fi
  names | sed 's/$/: a node takes Linux and root; or set KUBECONFIG and VMCP_E2E=1 to use a cluster that is there/' \
    >>"${VMCP_SKIPPED:-/dev/stderr}"
  exit 0
fi
down() {
  if [ -n "${KEEP:-}" ]; then
    echo "the node is still up: ${cluster[*]} exec kubectl get pods -A; ${cluster[*]} down"
  else
    "${cluster[@]}" down
  fi
}
# Before all other builds: it ends at once where Go is missing.
step "building the control plane" tests/kubernetes/components/build.sh >/dev/null
step "packages of the node" scripts/setup-e2e.sh
build
alone "${E2E_NODE:-e2e}"
"${cluster[@]}" down # leftovers of an interrupted run
end=down
step "bringing the node up" "${cluster[@]}" up
run_scenarios "${cluster[@]}" exec -- "$@"
