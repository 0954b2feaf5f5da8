#!/usr/bin/env bash
# Proves the CUDA backend on a GPU and writes what it saw; --pack makes one archive for a machine that cannot build.
# tools/gpu_check.sh --help says how; the programs of tools/gpu_check do the work.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v python3 >/dev/null; then
  echo "gpu_check.sh: expected python3, found none" >&2
  exit 2
fi
exec python3 -B -u "$folder/gpu_check/main.py" "$@"
