#!/usr/bin/env bash
# Checks the chart, rendered with its defaults and with each file of its ci/, and deploy/: with kubeconform, by strict
# schemas of Kubernetes, of our definitions and of others; with kube-score, by good practice for pods. kube-score stands in
# for kube-linter, which the Go module proxy refuses.
# Both are built from their Go modules, once. Where Go is missing, the check is skipped and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
chart=charts/vmcp-operator

# Exceptions of kube-score, each with its reason.
exceptions=(
  # A release names its images by a version, which never moves, or by a digest: one pull per node is enough.
  --ignore-test container-image-pull-policy
  # A limit of CPU would throttle the operator while many resources change at once.
  --ignore-container-cpu-limit
  # The root file system is read-only, and no volume takes writes: the kubelet stores and rotates the log alone.
  --ignore-test container-ephemeral-storage-request-and-limit
  # One replica leads; more of them only stand by for the Lease.
  --ignore-test deployment-replicas
  # `topologySpreadConstraints` spread the replicas over hosts, and let them share the only one.
  --ignore-test deployment-has-host-podantiaffinity
)
optional=(--enable-optional-test container-seccomp-profile --enable-optional-test container-ports-check)
# The chart's `networkPolicy.enabled` is off by default, for the platform says who reads metrics. Its policy leaves outgoing
# connections alone: a chart cannot know the addresses of the API server, of registries and of pods.
no_network_policy=(--ignore-test pod-networkpolicy)
# OpenShift chooses the user of pods.
no_user=(--ignore-test container-security-context-user-group-id)
# Kinds without a schema here: those of Flux, and OLM's, which scripts/olm-validate.sh checks.
skipped=GitRepository,HelmRelease,kustomize.toolkit.fluxcd.io/v1/Kustomization,ClusterServiceVersion

if ! command -v go >/dev/null; then
  echo "check-manifests: Go is missing, which builds kube-score and kubeconform" >>"${VMCP_SKIPPED:-/dev/stderr}"
  exit
fi
tools=$(tests/kubernetes/components/build.sh manifests)
helm=$(scripts/helm.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/schemas" "$work/rendered"

# Prints what kube-score finds in a file: `score FILE [FLAG…]`.
score() {
  local file=$1 findings
  shift
  if ! findings=$("$tools/kube-score" score --output-format ci --exit-one-on-warning --kubernetes-version v1.34 \
    "${exceptions[@]}" "${optional[@]}" "$@" - <"$file" 2>&1); then
    echo "kube-score finds in ${file##*/}:" >&2
    grep -v '^\[\(OK\|SKIPPED\)\]' <<<"$findings" >&2
    failed=1
  fi
}

failed=
for values in $chart/values.yaml $chart/ci/*.yaml; do
  rendered=$work/rendered/${values##*/}
  "$helm" template --kube-version 1.34 vmcp $chart -f "$values" >"$rendered"
  own=("${no_network_policy[@]}")
  ! grep -q '^openshift: true' "$values" || own+=("${no_user[@]}")
  score "$rendered" "${own[@]}"
done
for file in deploy/*.yaml deploy/examples/*.yaml; do printf -- '---\n'; cat "$file"; done >"$work/deploy.yaml"
score "$work/deploy.yaml" "${no_network_policy[@]}"

# Definitions of both groups: the chart makes those of ToolHive's group.
"$tools/manifest-schemas" "$work/schemas" "$work"/rendered/*.yaml
name='{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json'
"$tools/kubeconform" -strict -skip "$skipped" \
  -schema-location "$work/schemas/$name" -schema-location "$tools/schemas/$name" \
  "$work"/rendered/*.yaml deploy/*.yaml deploy/{examples,gitops,olm/manifests}/*.yaml >&2 || failed=1
[ -z "$failed" ]
