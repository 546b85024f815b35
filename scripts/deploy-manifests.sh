#!/usr/bin/env bash
# Generates the chart's copy of the resource definitions, their list for kustomize, deploy/*.yaml: the chart with its
# default values, for users without Helm, and deploy/olm: the chart as a bundle of OLM. With --check, fails when a committed
# file differs from what would be generated.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
chart=charts/vmcp-operator
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
mkdir -p "$fresh/crds" "$fresh/deploy"

definitions() {
  cp crds/*.yaml "$fresh/crds/"
  {
    echo '# Written by `make deploy-manifests`. The name has no extension so that `kubectl apply -f crds` passes it over.'
    printf '%s\n' 'apiVersion: kustomize.config.k8s.io/v1beta1' 'kind: Kustomization' 'resources:'
    for file in crds/*.yaml; do echo "  - ${file#crds/}"; done
  } > "$fresh/Kustomization"
}

manifests() {
  "$helm" template vmcp-operator $chart --namespace vmcp-system --kube-version 1.34 --set crds.install=false --output-dir "$fresh" >/dev/null
  # A hook of Helm's, which means nothing to kubectl.
  rm -f "$fresh"/vmcp-operator/templates/test.yaml
  for file in "$fresh"/vmcp-operator/templates/*.yaml; do
    # Labels that name Helm as the installer would be untrue here.
    sed -E '/^ *(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): /d; /^# Source: /d; 1s|^|# From charts/vmcp-operator, by `make deploy-manifests`.\n|' "$file" > "$fresh/deploy/${file##*/}"
  done
}

definitions
if [ "${1:-}" != --check ]; then
  rm -rf $chart/files
  mkdir $chart/files
  cp -r "$fresh/crds" $chart/files/crds
  cp "$fresh/Kustomization" crds/Kustomization
  helm=$(scripts/helm.sh)
  manifests
  find deploy -maxdepth 1 -name '*.yaml' ! -name 00-namespace.yaml -delete
  cp "$fresh"/deploy/*.yaml deploy/
  scripts/olm-bundle.sh deploy/olm
  exit
fi

same() { diff -r -u "$@" || { echo "$2 is out of date; write it anew: make deploy-manifests" >&2; exit 1; }; }
same "$fresh/crds" $chart/files/crds
same "$fresh/Kustomization" crds/Kustomization
if helm=$(scripts/helm.sh); then
  manifests
  same "$fresh/deploy" deploy --exclude=examples --exclude=gitops --exclude=olm --exclude=Kustomization --exclude=00-namespace.yaml
  scripts/olm-bundle.sh "$fresh/olm"
  same "$fresh/olm" deploy/olm --exclude=source
else
  reason="without helm, nothing compares deploy/ with the chart (the line above says where helm comes from)"
  echo "deploy-manifests --check: $reason" >>"${VMCP_SKIPPED:-/dev/stderr}"
fi
