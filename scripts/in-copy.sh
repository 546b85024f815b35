#!/usr/bin/env bash
# Runs a command of this checkout in a copy of it, `in-copy.sh COMMAND…`, at a fixed place in the cache and with a target folder of its own.
# Cargo tells by a file's time whether to compile: in a fresh clone every file is new. The copy is updated by git, which writes only
# files whose content changed, so that only they are new. Changes that are not committed come along.
# The target folder is shared with no other checkout: cargo would take a build of another's sources for one of these.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$here"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/ci
copy=$cache/source
mkdir -p "$cache"
exec 8>"$cache/lock"
! command -v flock >/dev/null || flock --nonblock 8 || { echo "waiting for another run in $copy" >&2; flock 8; }

# A commit of the files as they are, under an index of its own.
index=$(mktemp)
trap 'rm -f "$index"' EXIT
cp "$(git rev-parse --git-path index)" "$index"
export GIT_AUTHOR_NAME=ci GIT_AUTHOR_EMAIL=ci@localhost GIT_COMMITTER_NAME=ci GIT_COMMITTER_EMAIL=ci@localhost
commit=$(git rev-parse HEAD)
tree=$(GIT_INDEX_FILE=$index git add --all . && GIT_INDEX_FILE=$index git write-tree)
[ "$tree" = "$(git rev-parse 'HEAD^{tree}')" ] || commit=$(git commit-tree "$tree" -p "$commit" -m "files that are not committed")

update() {
  rm -f "$copy/.git/index.lock"
  [ -d "$copy/.git" ] || git init --quiet "$copy"
  # A checkout of the code host has no history.
  git -C "$copy" config receive.shallowUpdate true
  git push --quiet --force "$copy" "$commit:refs/ci/run" && git -C "$copy" reset --quiet --hard "$commit" && git -C "$copy" clean --quiet -ffdx
}
update || { rm -rf "$copy" && update; }
# Builds of old versions add up; 40 GB are three times one build.
if [ "$(du -s --block-size=1G "$cache/target" 2>/dev/null | cut -f 1)" -gt 40 ] 2>/dev/null; then rm -rf "$cache/target"; fi
export CARGO_TARGET_DIR=$cache/target VMCP_CI_COPY=off
unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
rm -f "$index"
cd "$copy"
# The lock is held by this shell until the command has ended, and by nothing that the command leaves behind.
"$@" 8>&-
