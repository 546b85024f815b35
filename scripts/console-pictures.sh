#!/usr/bin/env bash
# Takes a picture of each page of the web console, light, dark and as wide as a phone, and renews those of the documentation,
# docs/user/pictures/console-PAGE-LOOK.png. Arguments such as `usage-light` add pictures to it. Prints at the end which pictures it lacks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Without a browser the test is skipped, which would leave old pictures in place.
scripts/chromium.sh >/dev/null
taken=${XDG_CACHE_HOME:-$HOME/.cache}/vmcp/console-pictures
kept=docs/user/pictures
rm -rf "$taken"
VMCP_PICTURES=$taken scripts/test.sh --test scenarios -- console_browser::every_page_is_accessible
ls "$taken"/*-light.png >/dev/null
for name; do
  [ -f "$taken/$name.png" ] || { echo "no such picture: $name; there are: $(cd "$taken" && echo *.png)" >&2; exit 2; }
  cp "$taken/$name.png" "$kept/console-$name.png"
done
lacking=()
for picture in "$taken"/*.png; do
  name=$(basename "$picture" .png)
  if [ -f "$kept/console-$name.png" ]; then
    cp "$picture" "$kept/console-$name.png"
    echo "renewed $kept/console-$name.png"
  else
    lacking+=("$name")
  fi
done
# A page that was renamed or removed leaves its picture behind.
for picture in "$kept"/console-*.png; do
  name=$(basename "$picture" .png)
  [ -f "$taken/${name#console-}.png" ] || { echo "of no page: $picture" >&2; exit 1; }
done
echo "all of them, to be compared by eye: $taken"
echo "not in the documentation: ${lacking[*]:-none}"
