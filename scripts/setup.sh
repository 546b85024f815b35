#!/usr/bin/env bash
# Installs the tools that building, tests and the demo need and this machine lacks, and prints them; a second run has nothing to do.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need clang clang
need mold mold
need cc build-essential
need git git
need curl curl
# Without certificates every download fails.
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || [ "$(uname)" != Linux ] || missing+=(ca-certificates)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
# A browser for the tests of the web console, which are skipped without one. Ubuntu's package of this name is a snap, so only Debian's counts.
if ! "$root/scripts/chromium.sh" >/dev/null 2>&1 && grep -qs '^ID=debian' /etc/os-release && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
  missing+=(chromium)
fi
if [ ${#missing[@]} -gt 0 ]; then
  install="apt-get install -y --no-install-recommends ${missing[*]}"
  if ! command -v apt-get >/dev/null; then
    echo "missing: ${missing[*]}. Install them with this system's package manager, then run make again." >&2
    exit 1
  elif [ "$(id -u)" = 0 ]; then
    as_root=()
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "missing: ${missing[*]}. Install them, then run make again:  sudo $install" >&2
    exit 1
  fi
  echo "installing ${missing[*]}"
  "$root/scripts/retry.sh" "${as_root[@]}" apt-get update -qq
  "$root/scripts/retry.sh" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null
fi

for tool in cargo npm node; do
  command -v "$tool" >/dev/null || { echo "missing: $tool. vmcp needs Rust 1.95 (rustup.rs) and, for tests and the demo, Node 20 or newer." >&2; exit 1; }
done
for component in rustfmt clippy; do
  cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || "$root/scripts/retry.sh" rustup component add "$component"
done

"$root/tests/servers/install.sh"
