#!/usr/bin/env bash
# Installs a wheel of tools/wheel.sh in a new Debian that has nothing but Python, and goes from a CSV file to a served
# probability, then to DataFrames, another client and Parquet.
#
#   tests/python/wheel_check.sh [debian12|debian13] [--cuda CUDA_WHEEL] [--root FOLDER] WHEEL
#
#   --cuda WHEEL    also the wheel hugectr_lite_cuda, which brings 1 GB of NVIDIA's: no GPU is needed to find it
#   --root FOLDER   keep the root, or use the one that is there (tests/fresh_root.sh)
#
# As root. Exits with an error as soon as anything is not as the documentation says.
set -euo pipefail
tests=$(cd "$(dirname "$0")/.." && pwd)
fail() { echo "wheel_check.sh: $*" >&2; exit 1; }
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }

distribution=debian12 cuda='' root=''
while [ $# -gt 0 ]; do
  case "$1" in
    debian12 | debian13) distribution=$1; shift ;;
    --cuda) cuda=${2:?--cuda needs a wheel}; shift 2 ;;
    --root) root=${2:?--root needs a folder}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "wheel_check.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
    *) break ;;
  esac
done
if [ $# != 1 ] || [ ! -f "$1" ]; then usage >&2; exit 2; fi
[ "$(stat -c %s "$1")" -le 40000000 ] || fail "expected a wheel of at most 40 MB, found $(stat -c %s "$1") bytes"
if [ -z "$root" ]; then
  root=$(mktemp -d)/root
  trap 'rm -rf "$(dirname "$root")"' EXIT
fi
"$tests/fresh_root.sh" "$distribution" --root "$root" --bare \
  sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null'
rm -rf "$root/check"
mkdir "$root/check"
cp "$1" ${cuda:+"$cuda"} "$tests/python/wheel_check.py" "$tests/../docs/python.md" "$tests"/data/adult/*.gz "$root/check"
"$tests/fresh_root.sh" "$distribution" --root "$root" --bare python3 /check/wheel_check.py "/check/$(basename "$1")" \
  ${cuda:+"/check/$(basename "$cuda")"}
