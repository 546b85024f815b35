#!/usr/bin/env bash
# Builds the programs of a Kubernetes cluster, and helm, once, into the cache, and prints the folder that holds them.
# With `oldest`, the API server and the controller manager are those of the oldest Kubernetes that vmcp supports.
# With `gitops`, it is a program that says how Argo CD and Flux see the health of an object, by their own libraries.
# With `gateway-api`, it is no program but the definition of HTTPRoutes, as a cluster with a gateway has it.
# With `toolhive`, it is the folder of example manifests of ToolHive.
# With `manifests`, it is kube-score and kubeconform, which check manifests, with schemas of Kubernetes and of others.
# A folder is named by the version and the hash of the sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
retry=$here/../../../scripts/retry.sh
kubernetes=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/kubernetes
helm=v3.22.0
gateway_api=v1.4.1
toolhive=v0.44.0
prometheus_operator=v0.85.0

say() { echo "  $SECONDS s: $*" >&2; }

# Compiles the module of the current folder to $1/kubernetes-components, and links to it by the names that follow.
compile() {
  local folder=$1 set="-X k8s.io/component-base/version" program
  shift
  say "downloading modules"
  "$retry" go mod download
  say "compiling"
  go build -o "$folder/kubernetes-components" -ldflags \
    "-s -w $set.gitVersion=v$version $set.gitMajor=$(cut -d. -f1 <<<"$version") $set.gitMinor=$(cut -d. -f2 <<<"$version")" .
  for program; do
    ln -s kubernetes-components "$folder/$program"
  done
}

build_newest() {
  compile "$1" etcd coredns kubectl kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubelet
  go build -o "$1/pause" -ldflags "-s -w" ./pause
  say "helm $helm"
  cd /
  GOBIN=$1 "$retry" go install -ldflags "-s -w" "helm.sh/helm/v3/cmd/helm@$helm" 2> >(grep -v '^go: downloading' >&2)
}

build_oldest() {
  local newest program
  newest=$("$here/build.sh")
  compile "$1" kube-apiserver kube-controller-manager
  for program in etcd kubectl helm; do
    ln -s "$newest/$program" "$1/$program"
  done
}

build_gitops() {
  say "downloading modules"
  "$retry" go mod download
  say "compiling"
  go build -o "$1/gitops-health" -ldflags "-s -w" .
}

build_gateway-api() {
  local module
  cd /
  module=$("$retry" go mod download -json "sigs.k8s.io/gateway-api@$gateway_api" | sed -nE 's#^\t"Dir": "(.*)",?$#\1#p')
  cp "$module/config/crd/standard/gateway.networking.k8s.io_httproutes.yaml" "$1/httproutes.yaml"
  chmod u+w "$1/httproutes.yaml"
}

build_toolhive() {
  local module
  cd /
  module=$("$retry" go mod download -json "github.com/stacklok/toolhive@$toolhive" | sed -nE 's#^\t"Dir": "(.*)",?$#\1#p')
  cp -r "$module/examples/operator/." "$1/"
  chmod -R u+w "$1"
}

# Prints the folder of a module: of the version that the go.mod of the current folder asks for, unless one is named.
module_folder() { "$retry" go mod download -json "$1" | sed -nE 's#^\t"Dir": "(.*)",?$#\1#p'; }

build_manifests() {
  local api prometheus argo
  say "downloading modules"
  "$retry" go mod download
  say "compiling"
  go build -o "$1/manifest-schemas" -ldflags "-s -w" .
  GOBIN=$1 "$retry" go install -ldflags "-s -w" tool 2> >(grep -v '^go: downloading' >&2)
  say "schemas"
  api=$(cd "$here" && module_folder k8s.io/kubernetes)
  argo=$(cd "$here/gitops" && module_folder github.com/argoproj/argo-cd/v3)
  prometheus=$(cd / && module_folder "github.com/prometheus-operator/prometheus-operator@$prometheus_operator")
  prometheus=$prometheus/example/prometheus-operator-crd/monitoring.coreos.com
  mkdir "$1/schemas"
  "$1/manifest-schemas" "$1/schemas" "$api/api/openapi-spec/swagger.json" "$argo/manifests/crds/application-crd.yaml" \
    "${prometheus}_servicemonitors.yaml" "${prometheus}_prometheusrules.yaml"
}

also=
case ${1:-newest} in
  newest) module=$here sources=("$here/pause/main.go") prefix= name=Kubernetes path=k8s.io/kubernetes ;;
  oldest) module=$here/oldest sources=("$here/go.mod") prefix= name=Kubernetes path=k8s.io/kubernetes ;;
  gitops) module=$here/gitops sources=() prefix=argo-cd- name="health checks of Argo CD" path=github.com/argoproj/argo-cd/v3 ;;
  gateway-api) module=$here sources=() prefix= name="the Gateway API" path=k8s.io/kubernetes ;;
  toolhive) module=$here sources=() prefix= name="the examples of ToolHive" path=k8s.io/kubernetes ;;
  manifests)
    module=$here/manifests sources=("$here/go.mod" "$here/gitops/go.mod") prefix=manifests- name="checks of manifests"
    path=github.com/yannh/kubeconform also=$prometheus_operator
    ;;
  *) echo "usage: build.sh [oldest|gitops|gateway-api|toolhive|manifests]" >&2; exit 2 ;;
esac
version=$(sed -nE "s#^(require |\t)$path v([^ ]*).*#\2#p" "$module/go.mod")
hash=$({ cat "$module/go.mod" "$module/go.sum" "$module/main.go" "${sources[@]}"; echo "$helm$also"; } | sha256sum | cut -c -8)
folder=$kubernetes/$prefix$version-$hash
if [ "${1:-}" = gateway-api ]; then
  version=${gateway_api#v} folder=$kubernetes/gateway-api-$gateway_api
elif [ "${1:-}" = toolhive ]; then
  version=${toolhive#v} folder=$kubernetes/toolhive-$toolhive
fi

if [ ! -d "$folder" ]; then
  command -v go >/dev/null || {
    echo "missing: go. The control plane of the tests is built from Go modules (go.dev/dl, 1.24 or newer); or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver." >&2
    exit 1
  }
  mkdir -p "$kubernetes"
  exec 9>"$kubernetes/lock.${1:-newest}"
  flock 9
  if [ ! -d "$folder" ]; then
    echo "building $name $version from its Go modules into $folder (once; minutes)" >&2
    rm -rf "$folder.building"
    mkdir -p "$folder.building"
    # Debug information, which the linker would drop, takes a tenth of the time.
    export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false"
    cd "$module"
    "build_${1:-newest}" "$folder.building"
    mv "$folder.building" "$folder"
    say "done"
  fi
fi
echo "$folder"
