#!/usr/bin/env bash
# Prints the tokens that contexts saved at GET /tools: of the server that runs with CONFIG; without CONFIG, of one that serves
# examples/topics.yaml, which this script starts, asks for two contexts, and stops.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/target}
vmcp=$target/debug/vmcp
[ -z "${CONFIG:-}" ] || exec "$vmcp" --config "$CONFIG" tools metrics --output json

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
folder=$(mktemp -d)
listen=127.0.0.1:$(free_port)
admin=127.0.0.1:$(free_port)
# The fixture is a program of its configuration, and the cache of a person stays as it is.
PATH=$target/debug:$PATH XDG_CACHE_HOME=$folder "$vmcp" --config "$root/examples/topics.yaml" serve --listen "$listen" --admin-listen "$admin" 2>"$folder/log" &
server=$!
finish() {
  kill "$server" 2>/dev/null && wait "$server" || true
  rm -rf "$folder"
}
trap finish EXIT

for _ in $(seq 120); do
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  # Without a context no tool is listed. An answer without tools is not counted.
  if curl -sf "http://$listen/tools?context=agile" 2>/dev/null | grep -q '"returnedCount":[1-9]'; then ready=1; break; fi
  sleep 0.25
done
[ -n "${ready:-}" ] || { echo "the tools of examples/topics.yaml are not listed after 30 seconds:" >&2; cat "$folder/log" >&2; exit 1; }
curl -sf "http://$listen/tools?message=I+need+to+check+PROJ-123+ticket+comments" >/dev/null
VMCP_URL=http://$listen/mcp VMCP_ADMIN_URL=http://$admin "$vmcp" tools metrics --output json
