#!/usr/bin/env bash
# Sets up, builds and tests.
#
#   tests/run.sh                what a change needs: the release build (with the CUDA plug-in where nvcc is
#                               found) and every test
#   tests/run.sh --full         the formatting check where clang-format 14 is found, the same, then the tests again under
#                               AddressSanitizer + UBSan, those with threads under ThreadSanitizer (CMakePresets.json
#                               says which)
#   tests/run.sh --fuzz [S]     the fuzz targets, S seconds each (default 300; needs clang++)
#
#   --no-setup                  do not look for missing packages
#   --all-parts                 whatever cannot be built or tested for want of a package is an error, and so is a test that is
#                               skipped
#
# At the end it prints the seconds of each phase, also to build/phases.tsv, and the hits of the compiler cache.
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }

mode='' setup=1 all_parts=0 fuzz_seconds=300
while [ $# -gt 0 ]; do
  case "$1" in
    --full) mode=full; shift ;;
    --fuzz)
      mode=fuzz; shift
      case "${1:-}" in [0-9]*) fuzz_seconds=$1; shift ;; esac ;;
    --no-setup) setup=0; shift ;;
    --all-parts) all_parts=1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

jobs=$(nproc)
mkdir -p build
: >build/phases.tsv

# Hits and calls of the compiler cache so far.
cache_counts() { ccache --print-stats 2>/dev/null | awk '$1 ~ /^(direct_cache_hit|preprocessed_cache_hit)$/ { hits += $2 } $1 == "cache_miss" { misses += $2 } END { print hits + 0, hits + misses + 0 }'; }
# phase <name> <command>...: runs it, and notes its seconds and what the compiler cache had of it.
phase() {
  local name=$1 begin=$SECONDS hits calls hits_before calls_before
  shift
  read -r hits_before calls_before < <(cache_counts)
  echo "== $name"
  "$@"
  read -r hits calls < <(cache_counts)
  printf '%s\t%d\t%d\t%d\n' "$name" $((SECONDS - begin)) $((hits - hits_before)) $((calls - calls_before)) >>build/phases.tsv
}

options=()
# Without a GPU nothing runs what nvcc makes: kernels are compiled for one architecture, half of the time. What is
# packed for a GPU (tools/gpu_check.sh) and what `cmake --preset release` alone makes has all of them.
nvidia-smi -L >/dev/null 2>&1 || options+=(-DCMAKE_CUDA_ARCHITECTURES=90)
choose_parts() {
  # The programs and tests of a preset are linked some sixty times.
  if command -v mold >/dev/null; then
    for kind in EXE SHARED MODULE; do options+=("-DCMAKE_${kind}_LINKER_FLAGS=-fuse-ld=mold"); done
  fi
  [ "$all_parts" = 1 ] || return 0
  for tool in ccache mold; do
    command -v "$tool" >/dev/null || { echo "run.sh: expected $tool, as --all-parts is given (tools/setup.sh installs it)" >&2; exit 1; }
  done
  options+=(-DHLITE_WITH_MPI=ON -DHLITE_WITH_GRPC=ON -DHLITE_WITH_PARQUET=ON -DHLITE_ALL_TESTS=ON)
}
configure_preset() {
  local python=AUTO
  if [ "$all_parts" = 1 ] && [ "$1" != tsan ]; then python=ON; fi
  cmake --preset "$1" "${options[@]}" "-DHLITE_WITH_PYTHON=$python" -DHLITE_WITH_TESTS=ON -DHLITE_SKIPPED_TESTS= "${@:2}" >"build/$1.configure.log" 2>&1 || { cat "build/$1.configure.log" >&2; exit 1; }
  grep -E '(plug-in|module): ' "build/$1.configure.log"
}
run_tests() {
  # One job more than cores: some tests wait for processes that they stop or start.
  ctest --preset "$1" -j $((jobs + 1)) --output-log "build/$1.test.log" || failed_again "$1"
  if [ "$all_parts" = 1 ] && grep -E '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "build/$1.test.log"; then
    echo "run.sh: $1: with --all-parts no test may be skipped" >&2
    exit 1
  fi
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
# run_preset <preset> [<option of cmake>...]
run_preset() {
  phase "$1: configure" configure_preset "$@"
  phase "$1: build" cmake --build --preset "$1" -j "$jobs"
  phase "$1: test" run_tests "$1"
}
# Written for one version of clang-format; others format differently.
check_format() {
  if [ "$setup" = 1 ] && [ -n "$(tools/setup.sh --list --format)" ]; then tools/setup.sh --format; fi
  case "$(clang-format --version 2>/dev/null)" in
    *' version 14.'*) tools/format.sh --check ;;
    *)
      echo "no clang-format 14: formatting is not checked"
      [ "$all_parts" = 0 ] || [ -z "$(tools/setup.sh --list --format)" ] ;;
  esac
}
print_phases() {
  [ -s build/phases.tsv ] || return 0
  echo "== seconds of each phase, and what the compiler cache had"
  awk -F '\t' '{ cache = $4 ? $3 " of " $4 : "-"; printf "%-24s %6d s  %s\n", $1, $2, cache; sum += $2 } END { printf "%-24s %6d s\n", "all", sum }' build/phases.tsv
}
trap print_phases EXIT

if [ "$setup" = 1 ]; then phase "packages" tools/setup.sh; fi
choose_parts
if [ "$mode" = fuzz ]; then
  cmake --preset fuzz
  targets=(checkpoint_fuzz config_fuzz http_fuzz norm_fuzz raw_fuzz serve_fuzz)
  cmake --build --preset fuzz --target "${targets[@]}" -j "$jobs"
  for target in "${targets[@]}"; do
    echo "== $target, $fuzz_seconds seconds"
    mkdir -p "build/fuzz/corpus/$target"
    [ "$target" = config_fuzz ] && cp configs/*.json configs/accuracy/*.json tests/fuzz/configs/*.json "build/fuzz/corpus/$target/"
    "build/fuzz/bin/$target" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/$target-" "build/fuzz/corpus/$target"
  done
  exit 0
fi
if [ "$mode" = full ]; then phase "format" check_format; fi
if [ "$mode" != full ]; then
  run_preset release
  exit 0
fi
# What is pure logic runs once, under AddressSanitizer; what no sanitizer can see, in the release build.
run_preset release "-DHLITE_SKIPPED_TESTS=config;checkpoint;data_reader;preparation;predict;serve"
run_preset asan "-DHLITE_SKIPPED_TESTS=docs;layering;tools/gpu_check"
run_preset tsan
