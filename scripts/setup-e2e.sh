#!/usr/bin/env bash
# Installs what a Kubernetes node on this machine needs, and says so; a second run finds nothing to do.
set -euo pipefail

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
[ -d /usr/lib/cni ] || [ -d /opt/cni/bin ] || missing+=(containernetworking-plugins)
# The images hold static programs.
target=$(uname -m)-unknown-linux-musl
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target"
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}. Install them with this system's package manager, then run make again." >&2
  exit 1
fi
echo "installing ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -qq "${missing[@]}" >/dev/null
