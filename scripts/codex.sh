#!/usr/bin/env bash
# Prints the path of the real Codex, which tests drive; `codex.sh --fetch` first gets its npm package into the cache, once (424 MB).
# Fails, and says why, where there is none. The folder is named by the version and the hash of the lock file.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
servers=$here/../tests/servers
version=$(sed -nE 's#.*"@openai/codex": "(.*)".*#\1#p' "$servers/codex/package.json")
hash=$(sha256sum <"$servers/codex/package-lock.json" | cut -c -8)
tools=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/tools
folder=$tools/codex-$version-$hash
if [ ! -d "$folder" ] && [ "${1:-}" = --fetch ]; then
  mkdir -p "$tools"
  exec 9>"$tools/codex.lock"
  flock 9
  if [ ! -d "$folder" ]; then
    echo "fetching Codex $version into $folder (once; 424 MB)" >&2
    rm -rf "$folder.fetching"
    mkdir -p "$folder.fetching"
    cp "$servers/codex/package.json" "$servers/codex/package-lock.json" "$servers/.npmrc" "$folder.fetching/"
    (cd "$folder.fetching" && "$here/retry.sh" npm ci --ignore-scripts --loglevel=error >&2)
    mv "$folder.fetching" "$folder"
  fi
fi
# The program itself: the launcher beside it would be one process more.
for program in "$folder"/node_modules/@openai/codex-*/vendor/*/bin/codex; do
  [ -x "$program" ] && echo "$program" && exit
done
[ ! -d "$folder" ] || { echo "missing: Codex; its package has no program for this platform" >&2; exit 1; }
echo "missing: Codex $version; make codex fetches it (424 MB)" >&2
exit 1
