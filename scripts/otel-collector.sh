#!/usr/bin/env bash
# Builds the OpenTelemetry Collector of tests/integration/collector from its Go modules, once, into the cache, and prints the program's path.
# Fails, and says why, where it can neither be found nor built. A folder is named by the version and the hash of the sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=$here/../tests/integration/collector
version=$(sed -nE 's#^\tgo.opentelemetry.io/collector/otelcol v([^ ]*).*#\1#p' "$module/go.mod")
hash=$(cat "$module/go.mod" "$module/go.sum" "$module/main.go" | sha256sum | cut -c -8)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/tools
folder=$tools/otel-collector-$version-$hash
if [ ! -x "$folder/otel-collector" ]; then
  # An older Go fetches the one that go.mod names, unless GOTOOLCHAIN forbids it.
  (cd "$module" && go list -m) >/dev/null 2>&1 || { echo "missing: go, 1.26 or newer (go.dev/dl), which builds the OpenTelemetry Collector" >&2; exit 1; }
  mkdir -p "$tools"
  exec 9>"$tools/otel-collector.lock"
  flock 9
  if [ ! -x "$folder/otel-collector" ]; then
    echo "building the OpenTelemetry Collector $version into $folder (once; minutes)" >&2
    rm -rf "$folder.building"
    mkdir -p "$folder.building"
    # Debug information, which the linker would drop, takes a tenth of the time.
    export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false"
    cd "$module"
    "$here/retry.sh" go mod download >&2
    go build -o "$folder.building/otel-collector" -ldflags "-s -w" . >&2
    mv "$folder.building" "$folder"
  fi
fi
echo "$folder/otel-collector"
