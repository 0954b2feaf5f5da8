#!/usr/bin/env bash
# Builds a wheel that installs where there is nothing but Python: the programs, the Python package, the plug-ins and the
# libraries that they need. It fits one minor version of Python, and systems whose C library is this one's or later. Where
# nvcc is found there is a second one, hugectr_lite_cuda, with the CUDA plug-in.
#
#   tools/wheel.sh [--no-setup] [--python PYTHON] [--out FOLDER] [--build FOLDER] [--define NAME=VALUE]...
#
#   --no-setup        do not install what building needs (tools/setup.sh)
#   --python PYTHON   the Python that it is for, with its headers (default: /usr/bin/python3)
#   --out FOLDER      where it goes (default: dist)
#   --build FOLDER    of CMake (default: build/wheel-<Python>)
#   --define A=B      for CMake: HLITE_WITH_CUDA=ON fails without nvcc; repeatable
#
# Arrow C++, MPI, cuBLASLt and NCCL are not in it: pip brings three of them (`[parquet]`, `[cuda]`), the system has MPI.
# gRPC is left out, because it would bring a copy of OpenSSL that nobody updates.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "wheel.sh: $*" >&2; exit 2; }
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }

setup=1 python=/usr/bin/python3 out=dist build='' defines=()
while [ $# -gt 0 ]; do
  case "$1" in
    --no-setup) setup=0; shift ;;
    --python) python=${2:?--python needs a program}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    --define) defines+=(--config-settings "cmake.define.${2:?--define needs NAME=VALUE}"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "wheel.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done
if [ "$setup" = 1 ]; then
  tools/setup.sh --programs --mpi --python --parquet
fi
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))') || fail "cannot run the Python $python"
[ -f "$headers/Python.h" ] || fail "expected the headers of $python in $headers, found none (tools/setup.sh installs Debian's)"
build=${build:-build/wheel-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')}
# The soname that the plug-in is linked with is that of one minor version of pyarrow.
arrow=$(sed -n 's/^pyarrow==\([0-9]*\.[0-9]*\)\..*/\1/p' tools/arrow.txt)
grep -q "pyarrow==$arrow\.\*" pyproject.toml || fail "expected pyarrow==$arrow.* in pyproject.toml, as tools/arrow.txt has it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r tools/wheel.txt
export PATH="$work/venv/bin:$PATH"

# The compiler by the name that other builds call it by, which ccache knows its files by.
export CC=${CC:-cc} CXX=${CXX:-c++}
"$work/venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/plain" . \
  --config-settings "build-dir=$build" --config-settings cmake.define.HLITE_WITH_GRPC=OFF \
  --config-settings cmake.define.HLITE_WITH_PARQUET=ON "${defines[@]}" || fail "cannot build"

# unpack <wheel> <folder>: $files becomes the folder that holds its files.
unpack() {
  wheel unpack --dest "$2" "$1" >/dev/null
  files=$(echo "$2"/*)
}
# package <folder> <library>: the Debian package that it is of, and its licence for the wheel.
keep_licence() {
  local owner
  owner=$(dpkg -S "$1" 2>/dev/null || dpkg -S "/usr$1" 2>/dev/null) || return 0
  owner=${owner%%:*}
  install -D -m 644 "/usr/share/doc/$owner/copyright" "$(echo "$files"/*.dist-info)/licenses/$owner.txt"
}

# auditwheel copies the libraries that files need into the wheel, under names of their own, and makes programs among the
# scripts start through Python, which takes longer than they do. So they lie in the package meanwhile.
unpack "$work"/plain/*.whl "$work/first"
scripts=$(echo "$files"/*.data/scripts)
mv "$scripts" "$files/hugectr_lite/bin"
# Nothing names oneDNN, as the first product opens it (hugectr_lite/ops/onednn.h).
onednn=$(sed -n 's/^DNNL_LIBRARY:[A-Z]*=//p' "$build/CMakeCache.txt")
if [ -f "$onednn" ]; then
  onednn=$(readlink -f "$onednn")
  install -m 755 "$onednn" "$files/hugectr_lite/$(patchelf --print-soname "$onednn")"
fi
for file in "$files"/hugectr_lite/bin/*; do patchelf --print-rpath "$file"; done | sort -u >"$work/rpath"
[ "$(wc -l <"$work/rpath")" = 1 ] || fail "expected one path for libraries in all programs, found $(cat "$work/rpath")"
mkdir "$work/joined"
wheel pack --dest-dir "$work/joined" "$files" >/dev/null
auditwheel repair --zip-compression-level 1 --wheel-dir "$work/repaired" --exclude 'libarrow.so.*' --exclude 'libparquet.so.*' \
  --exclude 'libmpi.so.*' "$work"/joined/*.whl >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "auditwheel refuses it"; }

unpack "$work"/repaired/*.whl "$work/last"
# Beside each folder of the package is the one that auditwheel made.
path=$(sed 's/[^:]*/&:&.libs/g' "$work/rpath")
for file in "$files"/hugectr_lite/bin/*; do patchelf --set-rpath "$path" "$file"; done
mkdir -p "$(echo "$files"/*.data)"
mv "$files/hugectr_lite/bin" "$(echo "$files"/*.data)/scripts"
# No folder of this machine.
for file in "$files"/hugectr_lite/libhlite_*.so; do
  path=$(patchelf --print-rpath "$file" | tr : '\n' | grep '^\$ORIGIN' | paste -sd : || true)
  patchelf --set-rpath "$path" "$file"
done
if command -v dpkg >/dev/null; then
  ldd "$build"/bin/train "$build"/bin/serve "$onednn" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u >"$work/libraries"
  for library in $onednn $(cat "$work/libraries"); do keep_licence "$library"; done
fi

# pack <folder>: the wheel of its files, in $out. The same files have the same times in every wheel of a commit; the compiler
# did not hear of that, as ccache would not know any of its files again.
pack() {
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)} \
    wheel pack --dest-dir "$out" "$1" >"$work/log"
  local file
  file=$out/$(sed -n 's/.*\/\(hugectr_lite[^ ]*\.whl\).*/\1/p' "$work/log")
  [ -f "$file" ] || fail "expected a wheel in $out, found: $(cat "$work/log")"
  echo "$file: $(du -b "$file" | awk '{ printf "%.1f MB", $1 / 1e6 }')"
}
mkdir -p "$out"
# The CUDA plug-in is a wheel of its own, for any Python, that adds a file to the package's folder: 10 MB of 45, and most
# machines have no GPU.
if [ -f "$files/hugectr_lite/libhlite_cuda.so" ]; then
  version=$(sed -n 's/^Version: //p' "$files"/*.dist-info/METADATA)
  more=$work/cuda/hugectr_lite_cuda-$version
  mkdir -p "$more/hugectr_lite" "$more/hugectr_lite_cuda-$version.dist-info/licenses"
  mv "$files/hugectr_lite/libhlite_cuda.so" "$more/hugectr_lite/"
  cp LICENSE "$more/hugectr_lite_cuda-$version.dist-info/licenses/"
  sed 's/^Tag: [^-]*-[^-]*-/Tag: py3-none-/; s/^Generator: .*/Generator: tools\/wheel.sh/' "$files"/*.dist-info/WHEEL \
    >"$more/hugectr_lite_cuda-$version.dist-info/WHEEL"
  cat >"$more/hugectr_lite_cuda-$version.dist-info/METADATA" <<END
Metadata-Version: 2.1
Name: hugectr_lite_cuda
Version: $version
Summary: The CUDA plug-in of hugectr_lite
License: Apache-2.0
Requires-Dist: hugectr_lite[cuda]==$version

END
  pack "$more"
fi
pack "$files"
