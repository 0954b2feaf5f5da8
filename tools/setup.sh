#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, and says which. As root or through sudo.
# Nothing but packages of the distribution is installed; run again, it does nothing.
#
#   tools/setup.sh             what building and testing need
#   tools/setup.sh --programs  what building the programs needs, no more
#   tools/setup.sh --bench     also what the comparison with PyTorch needs
#   tools/setup.sh --list      print the packages and do nothing
set -euo pipefail

programs=(g++ cmake ninja-build pkg-config ca-certificates
  libdnnl-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libaio-dev libxxhash-dev zlib1g-dev
  libzstd-dev openmpi-bin libopenmpi-dev)
packages=("${programs[@]}" catch2 python3 python3-dev python3-numpy python3-onnx pybind11-dev)
bench=(python3-torch python3-numpy libopenblas0-openmp)

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }
list_only=0
for argument in "$@"; do
  case "$argument" in
    --programs) packages=("${programs[@]}") ;;
    --bench) packages+=("${bench[@]}") ;;
    --list) list_only=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ "$list_only" = 1 ]; then printf '%s\n' "${packages[@]}"; exit 0; fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup.sh: this is not a Debian-like system; install by hand: ${packages[*]}" >&2
  exit 2
fi
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} = 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

sudo=()
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: expected root or sudo to install: ${missing[*]}" >&2
    exit 2
  fi
  sudo=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
