#!/usr/bin/env bash
# Makes packages of the release binary that `make packages` has built, for this machine's platform alone; OUT is emptied first.
#   packaging/from-checkout.sh BINARY OUT
set -euo pipefail
binary=$(realpath "$1")
out=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=macos ;;
  *) echo "packages are made for Linux and macOS, not for $(uname -s)" >&2; exit 1 ;;
esac
processor=$(uname -m)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/${processor/arm64/aarch64}-$system"
ln -s "$binary" "$folder/${processor/arm64/aarch64}-$system/vmcp"
rm -rf "$out"
"$root/packaging/package.py" --version "$("$binary" --version | cut -d ' ' -f 2)" "$folder" "$out"
