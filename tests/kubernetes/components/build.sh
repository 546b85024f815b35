#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster, and helm, once, into the cache, and prints the folder that holds them.
# The folder is named by the version and the hash of the sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' "$here/go.mod")
helm=v3.22.0
sources=$({ cat "$here/go.mod" "$here/go.sum" "$here/main.go" "$here/pause/main.go"; echo "$helm"; } | sha256sum | cut -c -8)
retry=$here/../../../scripts/retry.sh
kubernetes=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/kubernetes
folder=$kubernetes/$version-$sources

build() {
  local building=$folder.building begin=$SECONDS
  local set="-X k8s.io/component-base/version"
  say() { echo "  $((SECONDS - begin)) s: $*" >&2; }
  rm -rf "$building"
  mkdir -p "$building"
  export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
  cd "$here"
  echo "building Kubernetes $version from its Go modules into $folder (once; about five minutes)" >&2
  say "downloading modules"
  "$retry" go mod download
  say "compiling"
  go build -o "$building/kubernetes-components" -ldflags \
    "-s -w $set.gitVersion=v$version $set.gitMajor=$(cut -d. -f1 <<<"$version") $set.gitMinor=$(cut -d. -f2 <<<"$version")" .
  go build -o "$building/pause" -ldflags "-s -w" ./pause
  say "helm $helm"
  cd /
  GOBIN=$building "$retry" go install -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@$helm" 2> >(grep -v '^go: downloading' >&2)
  for program in etcd coredns kubectl kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet; do
    ln -s kubernetes-components "$building/$program"
  done
  mv "$building" "$folder"
  say "done"
}

if [ ! -d "$folder" ]; then
  command -v go >/dev/null || {
    echo "missing: go. The control plane of the tests is built from Go modules (go.dev/dl, 1.24 or newer); or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver." >&2
    exit 1
  }
  mkdir -p "$kubernetes"
  exec 9>"$kubernetes/lock"
  flock 9
  [ -d "$folder" ] || build
fi
echo "$folder"
