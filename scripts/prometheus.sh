#!/usr/bin/env bash
# Prints the folder of `prometheus` and `promtool`: of those on PATH, or of Debian's package, which is unpacked once into the cache and not installed.
# Fails, and says why, where there is neither.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
  dirname "$(command -v promtool)"
  exit
fi
folder=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/tools/prometheus
if [ ! -x "$folder/usr/bin/promtool" ]; then
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "missing: prometheus and promtool (prometheus.io/download)" >&2; exit 1; }
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  # As a user that may read the folder: apt drops its rights.
  chmod 755 "$fresh"
  (cd "$fresh" && "$here/retry.sh" apt-get -o APT::Sandbox::User=root download -qq prometheus >/dev/null) || { echo "apt-get cannot fetch the package prometheus" >&2; exit 1; }
  dpkg-deb -x "$fresh"/prometheus_*.deb "$fresh/x"
  mkdir -p "$(dirname "$folder")"
  # Another run may have been quicker.
  mv -T "$fresh/x" "$folder" 2>/dev/null || [ -x "$folder/usr/bin/promtool" ]
fi
echo "$folder/usr/bin"
