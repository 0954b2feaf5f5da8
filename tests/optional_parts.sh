#!/usr/bin/env bash
# Takes what an optional part of the build needs away, whole and in pieces, and looks at what CMake says: the configuration
# passes and names what is missing, and with HLITE_WITH_<PART>=ON it ends with an error that names it. For a system of its
# own, as packages are removed: tests/fresh_root.sh debian12 bash -c 'tools/setup.sh && tests/optional_parts.sh'
#
#   tests/optional_parts.sh [--build]     with --build it also builds `train` each time
set -euo pipefail
cd "$(dirname "$0")/.."
build=0
case "${1:-}" in
  "") ;;
  --build) build=1 ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
[ ! -d .git ] && [ "$(id -u)" = 0 ] || { echo "optional_parts.sh: expected root in a system made for this (tests/fresh_root.sh)" >&2; exit 2; }

work=$(mktemp -d)
folder=build/optional  # as deep as a preset's, so that the compiler cache has its files
trap 'rm -rf "$work" "$folder"' EXIT
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DHLITE_WITH_TESTS=OFF
  -DHLITE_WITH_BENCH=OFF -DCMAKE_CUDA_ARCHITECTURES=90)

# look <part> <words of its status line> <what it must name>: as things are now.
look() {
  local log=$work/log code=0
  rm -rf "$folder"
  cmake -S . -B "$folder" "${options[@]}" >"$log" 2>&1 || { cat "$log"; echo "FAILED: the configuration ends without $3"; exit 1; }
  grep -F -- "-- the $2: no, missing: " "$log" | grep -F -- "$3" ||
    { grep -F "the $2" "$log"; echo "FAILED: expected a line that says that the $2 is without $3"; exit 1; }
  if [ "$build" = 1 ]; then cmake --build "$folder" --target train >"$log" 2>&1 || { tail "$log"; exit 1; }; fi
  rm -rf "$folder"
  cmake -S . -B "$folder" "${options[@]}" "-DHLITE_WITH_$1=ON" >"$log" 2>&1 || code=$?
  if [ "$code" = 0 ] || ! tr -s '\n ' ' ' <"$log" | grep -qF -- "HLITE_WITH_$1 is ON, but for the $2 this is missing: "; then
    cat "$log"
    echo "FAILED: expected HLITE_WITH_$1=ON to be an error without $3"
    exit 1
  fi
}
# without <part> <words> <package> <what it must name>: that package removed, whatever else needs it.
without() {
  dpkg --remove --force-depends "$3" >/dev/null 2>&1
  look "$1" "$2" "$4"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$3" >/dev/null 2>&1
}

without MPI "MPI plug-in" libopenmpi-dev "(libopenmpi-dev)"
without MPI "MPI plug-in" openmpi-bin "openmpi"
for package in libgrpc++-dev libgrpc-dev libabsl-dev libprotobuf-dev protobuf-compiler; do
  without GRPC "gRPC plug-in" "$package" "($package)"
done
without PYTHON "Python module" pybind11-dev "(pybind11-dev)"
without PYTHON "Python module" "libpython3.$(python3 -c 'import sys; print(sys.version_info[1])')-dev" "(python3-dev)"

arrow=$(echo "${XDG_CACHE_HOME:-$HOME/.cache}"/hugectr_lite/arrow-*)
for piece in . lib include include/parquet/file_reader.h include/arrow; do
  mv "$arrow/$piece" "$work/piece" 2>/dev/null || mv "$arrow" "$work/piece"
  look PARQUET "Parquet plug-in" "Arrow C++"
  if [ "$piece" = . ]; then mv "$work/piece" "$arrow"; else mv "$work/piece" "$arrow/$piece"; fi
done

# The toolkit may be mounted read-only: what is to be missing there is hidden by a layer above it.
if [ -x /usr/local/cuda/bin/nvcc ]; then
  for piece in bin/nvcc include/cublasLt.h lib64/libcudart_static.a; do
    file=$(realpath --relative-to=/usr/local/cuda "/usr/local/cuda/$(dirname "$piece")")/$(basename "$piece")
    mkdir -p "$work/upper/$(dirname "$file")" "$work/overlay"
    mknod "$work/upper/$file" c 0 0  # what an overlay takes for a removed file
    mount -t overlay overlay -o "lowerdir=/usr/local/cuda,upperdir=$work/upper,workdir=$work/overlay" /usr/local/cuda
    look CUDA "CUDA plug-in" "$(basename "$piece" | sed "s/nvcc\|libcudart.*/nvcc that compiles/")"
    umount /usr/local/cuda
    rm -rf "$work/upper" "$work/overlay"
  done
fi
echo "optional parts: each may be absent, whole or in part"
