#!/usr/bin/env bash
# Builds the images `vmcp` and `vmcp-operator`, named as the chart expects them. REGISTRY=registry.example.com/team is put
# before the names, and the images are pushed; MODEL=1 puts the local embedding model into `vmcp`. TAG overrides the version
# of the chart, BUILDER (docker, podman or buildah) the first of these that works.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tag=${TAG:-$(sed -n 's/^appVersion: "\(.*\)"$/\1/p' charts/vmcp-operator/Chart.yaml)}
registry=${REGISTRY:+${REGISTRY%/}/}

builder=${BUILDER:-}
for candidate in docker podman buildah; do
  [ -n "$builder" ] || { "$candidate" info >/dev/null 2>&1 && builder=$candidate; } || true
done
[ -n "$builder" ] || { echo "missing: docker, podman or buildah that works (try \`docker info\`)" >&2; exit 1; }

image() {
  "$builder" build --target "$1" --tag "$registry$2:$tag" .
  [ -z "$registry" ] || "$builder" push "$registry$2:$tag"
  echo "$registry$2:$tag"
}
image "vmcp${MODEL:+-with-model}" vmcp
image operator vmcp-operator
