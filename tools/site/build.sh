#!/usr/bin/env bash
# Makes a site of the documentation; it needs no network:
#
#   tools/site/build.sh [DIR]    DIR/index.html and what it links to (default: build/site)
#
# MkDocs and its theme are those that tools/setup.sh fetched, or that python3 finds.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
case "${1:-}" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; -*) echo "build.sh: unknown option '$1'" >&2; exit 2 ;; esac
out=${1:-$root/build/site}
python=/usr/bin/python3
[ -x "$python" ] || python=python3
version=$(sed -n 's/^mkdocs-material==\([0-9.]*\).*/\1/p' "$root/tools/site.txt")
fetched=${XDG_CACHE_HOME:-$HOME/.cache}/hugectr_lite/site-$version-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
export PYTHONPATH=$fetched${PYTHONPATH:+:$PYTHONPATH}
"$python" -c 'import material' 2>/dev/null ||
  { echo "build.sh: expected MkDocs with its Material theme, found none; tools/setup.sh fetches it" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$root/tools/site/mkdocs.yml" "$work"
cd "$root"
mkdir -p "$work/pages"
# Links to sources and configs lead to copies of these, so that no link of a page is broken.
cp -r --parents README.md ARCHITECTURE.md LICENSE docs tests/bench/RESULTS.md tests/bench/results "$work/pages"
cd "$work"
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs --quiet build --strict
rm -f html/README.html
mkdir -p "$out"
cp -r html/. "$out"
echo "site: $out/index.html"
