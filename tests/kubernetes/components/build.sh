#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster, and helm, once, into the cache; a stamp made of the sources tells whether there is anything to do.
# Prints the directory that holds them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's|^\tk8s.io/kubernetes v||p' "$here/go.mod")
helm=v3.22.0
prefix=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/kubernetes/$version
stamp=$prefix/stamp
wanted=$({ cat "$here/go.mod" "$here/go.sum" "$here/main.go"; echo "$helm"; } | sha256sum)

build() {
  mkdir -p "$prefix/building"
  local begin=$SECONDS
  say() { echo "  $((SECONDS - begin)) s: $*" >&2; }
  export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
  set_version="-X k8s.io/component-base/version"
  echo "building Kubernetes $version from its Go modules into $prefix (once; about five minutes)" >&2
  say "downloading modules"
  (cd "$here" && go mod download)
  say "compiling"
  (cd "$here" && go build -o "$prefix/building/kubernetes-components" -ldflags \
    "-s -w $set_version.gitVersion=v$version $set_version.gitMajor=${version%%.*} $set_version.gitMinor=$(cut -d. -f2 <<<"$version")" .)
  say "helm $helm"
  (cd "$prefix" && GOBIN=$prefix/building go install -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@$helm" 2> >(grep -v '^go: downloading' >&2))
  for program in etcd coredns kubectl kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet; do
    ln -sf kubernetes-components "$prefix/building/$program"
  done
  rm -rf "$prefix/bin"
  mv "$prefix/building" "$prefix/bin"
  echo "$wanted" > "$stamp"
  say "done"
}

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  command -v go >/dev/null || {
    echo "missing: go. The control plane of the tests is built from Go modules (go.dev/dl, 1.24 or newer); or set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver." >&2
    exit 1
  }
  mkdir -p "$prefix"
  exec 9>"$prefix/lock"
  flock 9
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] || build
fi
echo "$prefix/bin"
