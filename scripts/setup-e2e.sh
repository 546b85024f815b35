#!/usr/bin/env bash
# Installs the packages that a Kubernetes node on this machine needs, and prints them; a second run has nothing to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
export PATH=$PATH:/usr/sbin:/sbin
need containerd containerd
need runc runc
need nft nftables
need iptables iptables
need conntrack conntrack
need ip iproute2
need nsenter util-linux
need buildah buildah
need debootstrap debootstrap
[ -e /usr/lib/cni/bridge ] || [ -e /opt/cni/bin/bridge ] || missing+=(containernetworking-plugins)
# Images hold static programs, which are built for musl.
target=$(uname -m)-unknown-linux-musl
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || scripts/retry.sh rustup target add "$target"
[ ${#missing[@]} -gt 0 ] || exit 0
cannot() {
  echo "make e2e: $1. A node here needs ${missing[*]}; or use an existing cluster: KUBECONFIG and VMCP_E2E=1 (docs/contributor/testing.md)." >&2
  exit 1
}
command -v apt-get >/dev/null || cannot "there is no apt-get to install packages with"
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
scripts/retry.sh apt-get update -qq || cannot "apt-get cannot fetch the lists of packages"
scripts/retry.sh apt-get install -y --no-install-recommends -qq "${missing[@]}" >/dev/null || cannot "apt-get cannot install packages"
