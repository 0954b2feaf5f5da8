#!/usr/bin/env bash
# docs/first_hour.md in a new minimal Debian (tests/fresh_root.sh): its commands as they are printed, by pip into a virtual
# environment, until a score has been served. As root. Takes what a build takes.
#
#   tests/bench/fresh_hour.sh [debian12|debian13]
set -euo pipefail
source_root=$(cd "$(dirname "$0")/../.." && pwd)
begin=$SECONDS
mkdir -p "$source_root/build"
# All blocks but the one that builds without pip; Python's go through python3.
commands=$(awk '/^```/ { if (inside) { if (python) print "PYTHON_BLOCK"; inside = python = 0 }
                 else if ($0 != "```" && $0 !~ /^```sh build/) {
                   inside = 1; python = $0 ~ /^```python/; if (python) print "python3 - <<'"'PYTHON_BLOCK'"'" } ; next }
         inside' "$source_root/docs/first_hour.md")
grep -q "pip install" <<<"$commands"
"$source_root/tests/fresh_root.sh" "${1:-debian12}" --bare bash -euxo pipefail -c "$commands" 2>&1 | tee "$source_root/build/fresh_hour.log"
grep -q '^{"scores": \[0\.[0-9]*\]}' "$source_root/build/fresh_hour.log" ||
  { echo "fresh_hour.sh: expected a served score, found none" >&2; exit 1; }
echo "== a score was served $((SECONDS - begin)) s after nothing"
