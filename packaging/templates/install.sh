#!/bin/sh
# Installs vmcp @VERSION@ into $PREFIX/bin, by default ~/.local/bin. Never asks for another user's rights.
#   PREFIX=/usr/local   another folder
#   VMCP_DOWNLOADS=URL  a mirror of the release's files; the checksums stay those of this script
set -eu

VERSION='@VERSION@'
DOWNLOADS=${VMCP_DOWNLOADS:-'@DOWNLOADS@'}

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# SHA-256 of the archive of a platform; fails for a platform without one.
checksum_of() {
  case $1 in
    @SUMS@
    *) return 1 ;;
  esac
}

# Processor and system, as in the names of archives.
platform() {
  processor=$(uname -m)
  case $(uname -s) in
    Linux) system=linux ;;
    Darwin)
      system=macos
      # A shell under Rosetta says x86_64 on a machine with the other processor.
      [ "$(sysctl -n hw.optional.arm64 2>/dev/null || true)" != 1 ] || processor=aarch64
      ;;
    *) system=$(uname -s) ;;
  esac
  case $processor in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
  esac
  echo "$processor-$system"
}

# Fetches URL $1 into file $2. Nothing relies on the way: the checksum decides.
fetch() {
  protocol=${1%%:*}
  if has curl; then
    curl --proto "=$protocol" --fail --silent --show-error --location --retry 2 --output "$2" "$1"
  elif [ "$protocol" = file ]; then
    cp "${1#file://}" "$2"
  elif has wget; then
    wget -q -O "$2" "$1"
  else
    fail "curl and wget are missing; install one of them"
  fi
}

sha256() {
  if has sha256sum; then
    sha256sum "$1"
  elif has shasum; then
    shasum -a 256 "$1"
  elif has openssl; then
    openssl dgst -sha256 -r "$1"
  else
    fail "sha256sum, shasum and openssl are missing; install one of them, for nothing is installed unchecked"
  fi
}

# Everything happens in here, called by the last line: a shell that got half of this script does nothing.
main() {
  here=$(platform)
  expected=$(checksum_of "$here") || fail "no binary for $here; there are: @PLATFORMS@. docs/user/install.md says how to build one"
  prefix=${PREFIX:-${HOME:?set HOME or PREFIX}/.local}
  mkdir -p "$prefix/bin" && [ -w "$prefix/bin" ] || fail "$prefix/bin cannot be written; set PREFIX to a folder of yours"

  # Beside its place, so that the last step is a rename: a running vmcp is not disturbed, and none is ever half there.
  work=$(mktemp -d "$prefix/bin/.vmcp-install.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  archive=vmcp-$VERSION-$here.tar.gz
  fetch "$DOWNLOADS/$archive" "$work/$archive" || fail "cannot fetch $DOWNLOADS/$archive"
  found=$(sha256 "$work/$archive") || exit 1
  found=${found%% *}
  [ "$found" = "$expected" ] || fail "$archive is not the released one: SHA-256 $found, expected $expected; nothing was installed"
  tar -xzf "$work/$archive" -C "$work" vmcp
  chmod 755 "$work/vmcp"
  "$work/vmcp" --version >/dev/null || fail "vmcp does not run here; nothing was installed"
  mv -f "$work/vmcp" "$prefix/bin/vmcp"

  echo "installed vmcp $VERSION as $prefix/bin/vmcp"
  case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) echo "add it to the search path:  export PATH=\"$prefix/bin:\$PATH\"" ;;
  esac
}

main "$@"
