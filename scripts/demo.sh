#!/usr/bin/env bash
# Runs real MCP servers behind one vmcp, lists, searches and calls their tools, stops one server and calls its tool all the
# same, then stops everything.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp
export VMCP_SERVERS=${VMCP_SERVERS:-$cache/servers}
vmcp=${CARGO_TARGET_DIR:-$cache/target}/debug/vmcp

bold() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() {
  local arg line=vmcp
  for arg; do [[ $arg == *' '* ]] && line+=" \"$arg\"" || line+=" $arg"; done
  bold "\$ $line"
  "$vmcp" "$@"
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# With the features of all packages, so that `make test` does not compile its dependencies again.
(cd "$root" && VMCP_PULSE=20 scripts/stage.sh "build vmcp" cargo build --workspace --bin vmcp)
if ! "$vmcp" model status >/dev/null 2>&1; then
  show model pull || echo "Without the model, vmcp searches by keywords."
fi

DEMO=$(mktemp -d)
export DEMO
echo "Buy milk." > "$DEMO/note.txt"
VMCP_LISTEN=127.0.0.1:$(free_port)
VMCP_ADMIN_LISTEN=127.0.0.1:$(free_port)
export VMCP_LISTEN VMCP_ADMIN_LISTEN VMCP_URL=http://$VMCP_LISTEN/mcp VMCP_ADMIN_URL=http://$VMCP_ADMIN_LISTEN
DEMO_CLOCK=127.0.0.1:$(free_port)
export DEMO_CLOCK
finish() {
  kill "$server" "$clock" 2>/dev/null && wait "$server" "$clock" || true
  rm -rf "$DEMO"
}

"$vmcp" bridge --listen "$DEMO_CLOCK" --admin-listen "127.0.0.1:$(free_port)" -- \
  "$VMCP_SERVERS/python/bin/mcp-server-time" 2> "$DEMO/clock.log" &
clock=$!
bold "\$ vmcp serve --config examples/demo.yaml &"
cd "$root"
"$vmcp" serve --config examples/demo.yaml 2> "$DEMO/log" &
server=$!
trap finish EXIT

# Each backend can be used as soon as it answers; the demo waits up to a minute for all six and for their embeddings.
for _ in $(seq 120); do
  kill -0 "$server" 2>/dev/null || { cat "$DEMO/log"; exit 1; }
  connected=$(curl -s "$VMCP_ADMIN_URL/admin/status" | grep -o '"state":"connected"' | wc -l || true)
  [ "$connected" -ge 6 ] && curl -s "$VMCP_ADMIN_URL/admin/status" | grep -q '"state":"\(ready\|degraded\|off\)"' && break
  sleep 0.5
done

show backends
bold "\$ vmcp tools | tail"
"$vmcp" tools | tail
show find "what time is it in Tokyo"
show call time_get_current_time timezone=Asia/Tokyo
show find "read what I wrote down" --limit 3
show call files_read_text_file "path=$DEMO/note.txt"
bold "The server \`clock\` goes down. Its tool is called all the same: a similar one answers, and the result says so."
kill "$clock" && wait "$clock" || true
show call clock_get_current_time timezone=Asia/Tokyo
bold "All of it was served at $VMCP_URL; stopping it. Next: vmcp init, vmcp serve, and point a client there."
