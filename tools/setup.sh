#!/usr/bin/env bash
# Installs what building and testing need: packages of Debian 12 or 13 (tools/packages.txt), as root or through sudo, and of
# PyPI, to ~/.cache/hugectr_lite: Arrow C++, which reads Parquet files, NumPy 2, scikit-learn, pandas, polars and pyarrow, with which
# the Python package is tested, clients that test the server, and MkDocs. If PyPI cannot be reached, it says so: programs are
# built without Parquet, and these tests are skipped. Run again, it does nothing.
#
#   tools/setup.sh              all that building and testing need
#   tools/setup.sh --GROUP...   these groups alone:
#     --programs  to build the programs       --mpi      ranks as processes
#     --grpc      the server over gRPC        --python   the Python package
#     --parquet   Arrow C++ (PyPI)            --tests    tests, and their packages of PyPI
#     --format    the formatting check        --bench    the comparison with PyTorch
#     --pip       pip                         --runtime  to run programs that were built elsewhere
#   tools/setup.sh --list [--GROUP...]   print the packages and do nothing
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }

# The packages of the groups that are given, under the names of this Debian; elsewhere under Debian 13's.
# shellcheck disable=SC1090
release=$(. "${HLITE_OS_RELEASE:-/etc/os-release}" 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || release=unknown
packages_of() {
  awk -v groups=" $* " -v newer="$([ "$release" = "debian 12" ] || echo 1)" '
    /^#/ || NF < 2 || !index(groups, " " $1 " ") { next }
    { name = newer && NF > 2 ? $3 : $2 }
    name != "-" && !seen[name]++ { print name }' "$here/packages.txt"
}

# install_packages <group>...: what is missing of them.
install_packages() {
  local packages package missing=() sudo=()
  mapfile -t packages < <(packages_of "$@")
  case "$release" in
    "debian 12" | "debian 13") ;;
    *)
      echo "setup.sh: expected Debian 12 or 13, found ${release:-nothing} in /etc/os-release; install what Debian 13 calls" >&2
      echo "  ${packages[*]}" >&2
      echo "then build without this script (tools/demo.sh --no-setup, tests/run.sh --no-setup)" >&2
      exit 2 ;;
  esac
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed"
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup.sh: expected root or sudo to install: ${missing[*]}" >&2
      exit 2
    fi
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  echo "setup: done"
}

# Sets `python` to one that has pip.
find_pip() {
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then return; fi
  done
  install_packages pip
  python=/usr/bin/python3
}

# Headers and the two libraries of the wheel that tools/arrow.txt names, into a folder of its version.
fetch_arrow() {
  local list version folder work python
  list=$here/arrow.txt
  version=$(sed -n 's/^pyarrow==\([0-9.]*\).*/\1/p' "$list")
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/hugectr_lite/arrow-$version
  if [ -d "$folder" ]; then
    echo "setup: Arrow C++ $version is in $folder"
    return
  fi
  find_pip
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
  list=$here/$2
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

list_only=0 parquet=0 groups=()
for argument in "$@"; do
  case "$argument" in
    --programs | --mpi | --grpc | --python | --tests | --format | --bench | --pip | --runtime) groups+=("${argument#--}") ;;
    --parquet) parquet=1 ;;
    --list) list_only=1 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ ${#groups[@]} = 0 ] && [ "$parquet" = 0 ]; then
  groups=(programs mpi grpc python pip tests)
  parquet=1
fi
if [ "$list_only" = 1 ]; then packages_of ${groups[@]+"${groups[@]}"}; exit 0; fi
if [ ${#groups[@]} = 0 ]; then fetch_arrow; exit; fi
install_packages "${groups[@]}"
if [ "$parquet" = 1 ]; then
  fetch_arrow || echo "setup: building goes on without Parquet; tools/setup.sh --parquet tries again" >&2
fi
case " ${groups[*]} " in *" tests "*) ;; *) exit 0 ;; esac
fetch_python numpy numpy.txt numpy "NumPy 2" ||
  echo "setup: the Python module will not be tested with NumPy 2" >&2
fetch_python sklearn sklearn.txt scikit-learn "scikit-learn, pandas, polars and pyarrow" ||
  echo "setup: hl.Classifier will not be tested with scikit-learn, pandas, polars and pyarrow" >&2
fetch_python clients clients.txt tritonclient "tritonclient[http]" ||
  echo "setup: the server will not be tested with tritonclient and prometheus_client" >&2
fetch_python grpc grpc_clients.txt grpcio "grpcio" || echo "setup: the server will not be tested over gRPC" >&2
fetch_python site site.txt mkdocs-material "MkDocs" || echo "setup: the site of the documentation will not be built" >&2
