#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, 16 MB of them for gRPC, and says which. As root or through
# sudo. Then fetches from PyPI to ~/.cache/hugectr_lite: Arrow C++, which reads Parquet files, NumPy 2, scikit-learn, pandas
# and polars, with which the Python package is tested, and clients that test the server. If PyPI cannot be reached, it says
# so: programs are built without Parquet, and these tests are skipped. Run again, it does nothing.
#
#   tools/setup.sh             what building and testing need
#   tools/setup.sh --programs  what building the programs needs, no more: no gRPC, nothing from PyPI
#   tools/setup.sh --bench     also what the comparison with PyTorch needs
#   tools/setup.sh --parquet   Arrow C++ alone, or an error; needs python3 with pip
#   tools/setup.sh --list      print the packages and do nothing
set -euo pipefail

programs=(g++ cmake ninja-build pkg-config ca-certificates
  libdnnl-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libaio-dev libxxhash-dev libisal-dev
  libzstd-dev openmpi-bin libopenmpi-dev libboost-dev libsimdjson-dev prometheus-cpp-dev)
grpc=(libgrpc++-dev libprotobuf-dev protobuf-compiler)
packages=("${programs[@]}" "${grpc[@]}" catch2 curl zlib1g-dev python3 python3-dev python3-venv python3-numpy python3-onnx python3-jsonschema python3-pip pybind11-dev)
bench=(python3-torch python3-numpy libopenblas0-openmp)

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: this is not a Debian-like system; install by hand: ${packages[*]}" >&2
    exit 2
  fi
  local missing=() package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed"
    return
  fi
  local sudo=()
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
}

# Headers and the two libraries of the wheel that tools/arrow.txt names, into a folder of its version.
fetch_arrow() {
  local list version folder work python
  list=$(cd "$(dirname "$0")" && pwd)/arrow.txt
  version=$(sed -n 's/^pyarrow==\([0-9.]*\).*/\1/p' "$list")
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/hugectr_lite/arrow-$version
  if [ -d "$folder" ]; then
    echo "setup: Arrow C++ $version is in $folder"
    return
  fi
  for python in python3 /usr/bin/python3; do "$python" -m pip --version >/dev/null 2>&1 && break; done
  echo "setup: fetching Arrow C++ $version (pyarrow of PyPI, 55 MB)"
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX.tmp")
  if "$python" -m pip download --quiet --retries 1 --timeout 20 --disable-pip-version-check --no-deps \
      --only-binary :all: --python-version 3.11 --implementation cp --platform "manylinux_2_28_$(uname -m)" \
      --require-hashes -r "$list" -d "$work" >"$work/log" 2>&1 \
    && "$python" - "$work" >>"$work/log" 2>&1 <<'PYTHON'
import glob, os, sys, zipfile
work = sys.argv[1]
with zipfile.ZipFile(glob.glob(work + "/*.whl")[0]) as wheel:
    for name in wheel.namelist():
        parts = name.split("/")
        library = len(parts) == 2 and parts[1].startswith(("libarrow.so.", "libparquet.so."))
        licence = parts[-1] in ("LICENSE.txt", "NOTICE.txt")
        if parts[0] == "pyarrow" and parts[1] == "include":
            target = "/".join(parts[1:])
        elif library:
            target = "lib/" + parts[1]
        elif licence:
            target = parts[-1]
        else:
            continue
        if name.endswith("/"):
            continue
        path = os.path.join(work, "arrow", target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(wheel.read(name))
PYTHON
  then
    [ -d "$folder" ] || mv -T "$work/arrow" "$folder"
    rm -rf "$work"
    echo "setup: Arrow C++ $version is in $folder"
  else
    echo "setup: Arrow C++ cannot be fetched: $(grep -v '^ *$' "$work/log" | tail -n 1)" >&2
    rm -rf "$work"
    return 1
  fi
}

# fetch_python <name> <list> <first package> <words>: the wheels of a list of tools/, for the Python that CMake builds the
# module for, into a folder named after the version of the first one.
fetch_python() {
  local name=$1 list version folder work python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  list=$(cd "$(dirname "$0")" && pwd)/$2
  version=$(sed -n "s/^$3==\([0-9.]*\).*/\1/p" "$list")
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/hugectr_lite/$name-$version-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
  if [ -d "$folder" ]; then
    echo "setup: $4 is in $folder"
    return
  fi
  echo "setup: fetching $4 (PyPI)"
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX.tmp")
  if "$python" -m pip install --quiet --retries 1 --timeout 20 --disable-pip-version-check --no-deps --no-compile \
      --only-binary :all: --require-hashes -r "$list" --target "$work/files" >"$work/log" 2>&1; then
    [ -d "$folder" ] || mv -T "$work/files" "$folder"
    rm -rf "$work"
    echo "setup: $4 is in $folder"
  else
    echo "setup: $4 cannot be fetched: $(grep -v '^ *$' "$work/log" | tail -n 1)" >&2
    rm -rf "$work"
    return 1
  fi
}

list_only=0 parquet=1
for argument in "$@"; do
  case "$argument" in
    --programs) packages=("${programs[@]}") parquet=0 ;;
    --bench) packages+=("${bench[@]}") ;;
    --list) list_only=1 ;;
    --parquet) parquet=only ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ "$list_only" = 1 ]; then printf '%s\n' "${packages[@]}"; exit 0; fi
if [ "$parquet" = only ]; then fetch_arrow; exit; fi
install_packages
if [ "$parquet" = 0 ]; then exit; fi
fetch_arrow || echo "setup: building goes on without Parquet; tools/setup.sh --parquet tries again" >&2
fetch_python numpy numpy.txt numpy "NumPy 2" ||
  echo "setup: the Python module will not be tested with NumPy 2" >&2
fetch_python sklearn sklearn.txt scikit-learn "scikit-learn, pandas and polars" ||
  echo "setup: hl.Classifier will not be tested with scikit-learn, pandas and polars" >&2
fetch_python clients clients.txt tritonclient "tritonclient[http]" ||
  echo "setup: the server will not be tested with tritonclient and prometheus_client" >&2
fetch_python grpc grpc_clients.txt grpcio "grpcio" || echo "setup: the server will not be tested over gRPC" >&2
fetch_python site site.txt mkdocs-material "MkDocs" || echo "setup: the site of the documentation will not be built" >&2
