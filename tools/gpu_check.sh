#!/usr/bin/env bash
# Proves the CUDA backend on a GPU: its tests, compute-sanitizer on its kernels, the golden runs, a
# benchmark; and writes what it saw.
#
#   tools/gpu_check.sh                     builds here, checks here
#   tools/gpu_check.sh --pack DIR          builds here (no GPU needed) and puts all that a check needs into DIR,
#                                          shared libraries included
#   tools/gpu_check.sh --packed DIR        checks with what --pack made: needs the driver, cuBLASLt and python3
#   options of a check: --results FILE     where to add the results (default: tests/bench/RESULTS.md)
#                       --data DIR         folder for generated data (default: a temporary one)
#                       --rows N           samples of it (default: 8,000,000)
#                       --no-sanitizer     leave compute-sanitizer out
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; }

mode=build folder="" golden="$root/tests/data/golden" results="$root/tests/bench/RESULTS.md" data="" rows=8000000 sanitizer=1
while [ $# -gt 0 ]; do
  case "$1" in
    --pack) mode=pack folder=${2:?--pack needs a folder}; shift 2 ;;
    --packed) mode=packed folder=${2:?--packed needs a folder}; shift 2 ;;
    --results) results=${2:?--results needs a file}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --rows) rows=${2:?--rows needs a number}; shift 2 ;;
    --no-sanitizer) sanitizer=0; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "gpu_check.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

build() {
  # $ORIGIN: the programs find the libraries that lie beside them.
  cmake -S "$root" -B "$root/build/gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHLITE_WITH_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES=90 '-DCMAKE_BUILD_RPATH=$ORIGIN' >"$root/build/gpu.configure.log" 2>&1 ||
    { cat "$root/build/gpu.configure.log" >&2; exit 1; }
  cmake --build "$root/build/gpu" -j "$(nproc)" --target train criteo_synth hlite_cuda cuda_tests gpu_embedding_bench
}

pack() {
  mkdir -p "$1"
  local program library
  for program in train criteo_synth cuda_tests gpu_embedding_bench libhlite_cuda.so; do
    strip -o "$1/$program" "$root/build/gpu/bin/$program"
  done
  # Everything but what belongs to the system's C library and the driver.
  ldd "$1/train" "$1/criteo_synth" "$1/cuda_tests" "$1/gpu_embedding_bench" "$1/libhlite_cuda.so" |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -Ev '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*|libcuda|libcublas[^/]*)\.so' |
    while read -r library; do cp -L "$library" "$1/"; done
  git -C "$root" rev-parse --short HEAD >"$1/commit" 2>/dev/null || echo unknown >"$1/commit"
  du -sh "$1"
}

mkdir -p "$root/build"
case "$mode" in
  pack) build; pack "$folder"; exit 0 ;;
  build) build; folder="$root/build/gpu/bin"; git -C "$root" rev-parse --short HEAD >"$folder/commit" 2>/dev/null || true ;;
esac
[ -x "$folder/train" ] || { echo "gpu_check.sh: $folder: expected what --pack makes, found no train" >&2; exit 2; }
folder=$(cd "$folder" && pwd)

device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) ||
  { echo "gpu_check.sh: nvidia-smi finds no GPU" >&2; exit 4; }
[ -n "$device" ] || { echo "gpu_check.sh: nvidia-smi finds no GPU" >&2; exit 4; }
work=${data:-$(mktemp -d)}
mkdir -p "$work"
report="$work/report.md"
failed=0
say() { printf '\n== %s\n' "$*"; }
note() { printf '%s\n' "$*" | tee -a "$report"; }
# A check that may fail without ending the others.
check() {
  local name=$1; shift
  say "$name"
  if "$@" >"$work/$name.log" 2>&1; then note "- $name: passed"; else
    failed=1; note "- $name: FAILED, last lines:"; tail -n 12 "$work/$name.log" | sed 's/^/      /' | tee -a "$report"
  fi
}

printf '\n## GPU check, %s, %s, commit %s\n\n' "$(date -u +%F)" "$device" "$(cat "$folder/commit")" >"$report"
export HLITE_REQUIRE_GPU=1
check "kernel-tests" "$folder/cuda_tests"
if [ "$sanitizer" = 1 ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    check "compute-sanitizer-$tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$folder/cuda_tests" "*kernels*"
  done
fi

golden_run() { # name, more arguments
  local name=$1; shift
  "$folder/train" --config "$golden/$name/config.json" --init "$golden/$name/init.safetensors" --device cuda --quiet \
    --set solver.display=1 --metrics "$work/$name.jsonl" --export "$work/$name.safetensors" "$@"
  python3 - "$work/$name.jsonl" "$golden/$name" <<'P'
import csv, json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
losses = {e["iter"]: e["loss"] for e in events if e["event"] == "train"}
want = {int(r[0]): float(r[2]) for r in list(csv.reader(open(sys.argv[2] + "/expected_losses.csv")))[1:]}
off = {i: abs(losses[i] - w) / w for i, w in want.items()}
first, worst = max(o for i, o in off.items() if i <= 50), max(off.values())
print(f"first 50 losses within {first:.2g}, all within {worst:.2g}")
evals = list(csv.reader(open(sys.argv[2] + "/expected_eval.csv")))[1:]
auc = {e["iter"]: e["auc"] for e in events if e["event"] == "eval"}
worst_auc = max(abs(auc[int(r[0])] - float(r[1])) for r in evals)
print(f"AUC within {worst_auc:.2g}")
sys.exit(0 if first <= 1e-5 and worst <= 5e-3 and worst_auc <= 1e-3 else 1)
P
}
cp -r "$golden" "$work/golden"
golden="$work/golden"
gunzip -r "$golden"
for name in dlrm_plain dlrm_fused; do
  check "golden-$name" golden_run "$name"
  tail -n 2 "$work/golden-$name.log" | sed 's/^/    /' | tee -a "$report"
  cp "$work/$name.safetensors" "$work/$name.first.safetensors" 2>/dev/null || true
  check "golden-$name-without-graph" golden_run "$name" --set solver.cuda_graph=false
  check "repeat-and-graph-are-the-same-bits-$name" cmp "$work/$name.safetensors" "$work/$name.first.safetensors"
done

say "benchmark: the MLPerf DLRM shape"
"$folder/criteo_synth" --train "$rows" --test 0 --like criteo --cards terabyte --format raw --out "$work/c" >/dev/null
python3 - "$work" <<'P'
import json, sys
work = sys.argv[1]
fc = lambda name, bottom, n: {"name": name, "type": "FusedInnerProduct", "position": "Isolated", "bottom": bottom,
                              "top": name, "fc_param": {"num_output": n}}
json.dump({
    "solver": {"seed": 7, "lr_policy": "fixed", "display": 100, "max_iter": 600, "batchsize": 65536, "gpu": [0],
               "snapshot": 1000000000, "snapshot_prefix": "./b_", "cuda_graph": True, "enable_tf32_compute": True},
    "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 1.0}},
    "layers": [
        {"name": "data", "type": "Data", "format": "RawAsync", "source": "c.train.bin", "eval_source": "c.train.bin",
         "check": "None", "slot_size_array": "c.manifest.json", "label": {"top": "label", "label_dim": 1},
         "dense": {"top": "dense", "dense_dim": 13, "aligned": "Auto"},
         "sparse": [{"top": "keys", "type": "DistributedSlot", "max_feature_num_per_sample": 26, "max_nnz": 1,
                     "slot_num": 26}],
         "async_param": {"num_threads": 8, "num_batches_per_thread": 4, "io_block_size": 2097152, "io_depth": 8,
                         "io_alignment": 512, "shuffle": False}},
        {"name": "emb", "type": "HybridSparseEmbedding", "bottom": "keys", "top": "emb",
         "sparse_embedding_hparam": {"slot_size_array": "c.manifest.json", "embedding_vec_size": 128, "combiner": 0}},
        fc("b1", "dense", 512), fc("b2", "b1", 256), fc("b3", "b2", 128),
        {"name": "inter", "type": "Interaction", "bottom": ["b3", "emb"], "top": "inter"},
        fc("t1", "inter", 1024), fc("t2", "t1", 1024), fc("t3", "t2", 512), fc("t4", "t3", 256),
        {"name": "z", "type": "InnerProduct", "bottom": "t4", "top": "z", "fc_param": {"num_output": 1}},
        {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]},
    open(work + "/mlperf.json", "w"))
P
bench() {
  "$folder/train" --config "$work/mlperf.json" --device cuda --metrics "$work/mlperf.jsonl"
  python3 - "$work/mlperf.jsonl" <<'P'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
rates = [e["samples_per_s"] for e in events if e["event"] == "train"]
print(f"MLPerf DLRM shape, TF32, batch 65,536: {max(rates):,.0f} samples/s at best, {rates[-1]:,.0f} at the end")
P
}
check "mlperf-shape" bench
tail -n 1 "$work/mlperf-shape.log" | sed 's/^/    /' | tee -a "$report"
check "embedding" "$folder/gpu_embedding_bench"
sed 's/^/    /' "$work/embedding.log" | tee -a "$report"

if [ -w "$results" ]; then cat "$report" >>"$results" && echo "added to $results"; else echo "the report is $report"; fi
[ -n "${OUT:-}" ] && cp "$report" "$work"/*.log "$OUT"/ 2>/dev/null
exit "$failed"
