#!/usr/bin/env bash
# Sets up, builds and tests.
#
#   tests/run.sh                what a change needs: the release build (with the CUDA plug-in where nvcc is
#                               found) and every test
#   tests/run.sh --full         the formatting check where clang-format is found, the same, then the tests again under
#                               AddressSanitizer + UBSan, those with threads under ThreadSanitizer (CMakePresets.json
#                               leaves long runs on emulated GPUs out of both, and does not let every test that has
#                               Arrow's threads sleep a second before it ends)
#   tests/run.sh --fuzz [S]     the fuzz targets, S seconds each (default 300; needs clang++)
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(nproc)
# Without a GPU nothing runs what nvcc makes: kernels are compiled for one architecture, half of the time. What is
# packed for a GPU (tools/gpu_check.sh) and what `cmake --preset release` alone makes has all of them.
one_architecture=()
nvidia-smi -L >/dev/null 2>&1 || one_architecture=(-DCMAKE_CUDA_ARCHITECTURES=90)
# With ccache installed, sources that another build has compiled come from its cache, whatever folder that was in.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache} CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
fi
run_preset() {
  echo "== $1: configure, build, test"
  cmake --preset "$1" "${one_architecture[@]}" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log" >&2; exit 1; }
  cmake --build --preset "$1" -j "$jobs"
  # One job more than cores: some tests wait for processes that they stop or start.
  ctest --preset "$1" -j $((jobs + 1)) --output-log "build/$1.test.log" || failed_again "$1"
}
# Shows the output of the tests that failed once more, where it is found, and runs them again, alone. One test that
# passes then does not stop the rest: it is named here, and wants mending. More, or one that fails again, end this.
failed_again() {
  local failed="build/$1/Testing/Temporary/LastTestsFailed.log"
  [ -s "$failed" ] || exit 8  # not a test, but ctest itself
  echo "== $1: the output of what failed"
  awk '/\*\*\*/ {show = 1} /^ *[0-9]+\/[0-9]+ Test +#/ && !/\*\*\*/ {show = 0} /^ +Start +[0-9]+:/ {next} show' "build/$1.test.log" | tail -n 300
  [ "$(wc -l <"$failed")" -eq 1 ] || exit 8
  echo "== $1: the test that failed, again and alone"
  ctest --preset "$1" --rerun-failed --output-log "build/$1.again.log" || exit 8
  echo "== $1: UNSTABLE, failed once and passed when it ran alone:"
  grep -E 'Test +#' "build/$1.again.log"
}

case "${1:-}" in
  "" | --full | --fuzz) ;;
  -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) echo "run.sh: unknown argument '$1'" >&2; sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

mkdir -p build
tools/setup.sh
if [ "${1:-}" = --fuzz ]; then
  seconds=${2:-300}
  cmake --preset fuzz
  targets=(checkpoint_fuzz config_fuzz norm_fuzz raw_fuzz serve_fuzz)
  cmake --build --preset fuzz --target "${targets[@]}" -j "$jobs"
  for target in "${targets[@]}"; do
    echo "== $target, $seconds seconds"
    mkdir -p "build/fuzz/corpus/$target"
    [ "$target" = config_fuzz ] && cp configs/*.json configs/accuracy/*.json tests/fuzz/configs/*.json "build/fuzz/corpus/$target/"
    "build/fuzz/bin/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target"
  done
  exit 0
fi
if [ "${1:-}" = --full ] && command -v clang-format >/dev/null; then tools/format.sh --check; fi
run_preset release
if [ "${1:-}" = --full ]; then
  run_preset asan
  run_preset tsan
fi
