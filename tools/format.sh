#!/usr/bin/env bash
# Formats every C++ and CUDA source, or, with --check, fails and names those that are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null; then
  echo "format.sh: expected clang-format (Debian: apt-get install clang-format)" >&2
  exit 2
fi
# A copy of a commit has no repository: there all files count that no build has made.
mapfile -t files < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' 2>/dev/null ||
  find . -path ./build -prune -o -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print)
case "${1:-}" in
  "") clang-format -i "${files[@]}" ;;
  --check) clang-format --dry-run --Werror "${files[@]}" && echo "format: ${#files[@]} files are as they should be" ;;
  *) echo "usage: tools/format.sh [--check]" >&2; exit 2 ;;
esac
