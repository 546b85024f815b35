#!/usr/bin/env bash
# Writes an OLM bundle of the chart into the folder that is named first: manifests/, metadata/ and bundle.Dockerfile.
# What follows goes to helm, so that any value of the chart can be set: scripts/olm-bundle.sh FOLDER --set registry=…
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: scripts/olm-bundle.sh FOLDER [FLAGS OF HELM]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm=$(scripts/helm.sh)
chart=charts/vmcp-operator
# A chart of one template, which reads what the operator's chart renders.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/templates"
cp $chart/Chart.yaml "$work/"
cp deploy/olm/source/bundle.yaml "$work/templates/"

render() { "$helm" template vmcp-operator "$@" --namespace vmcp-system --kube-version 1.34; }
# Labels that name Helm as the installer would be untrue here.
render $chart --no-hooks --values deploy/olm/source/values.yaml "$@" |
  sed -E '/^ *(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): /d; /^# Source: /d' > "$work/manifests.yaml"
# Of several examples of a kind the first is taken: the ones to begin with.
for file in deploy/examples/{three-servers,*}.yaml; do echo ---; cat "$file"; done > "$work/examples.yaml"

rm -rf "$folder/manifests" "$folder/metadata"
mkdir "$folder/manifests" "$folder/metadata"
render "$work" | awk -v folder="$folder" '
  /^---$|^# Source: / { next }
  /^# file: / { close(file); file = folder "/" $3; next }
  { print > file }'
{
  echo '# From charts/vmcp-operator, by `make deploy-manifests`. To be built in its folder.'
  echo 'FROM scratch'
  sed -nE 's/^  ([^#]+): (.+)/LABEL \1=\2/p' "$folder/metadata/annotations.yaml"
  printf '%s\n' 'COPY manifests /manifests/' 'COPY metadata /metadata/'
} > "$folder/bundle.Dockerfile"
