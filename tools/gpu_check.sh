#!/usr/bin/env bash
# Proves the CUDA backend on a GPU: its tests, compute-sanitizer on its kernels, the golden runs, a
# benchmark; and writes what it saw.
#
#   tools/gpu_check.sh                     builds here, checks here
#   tools/gpu_check.sh --pack DIR          builds here (no GPU needed) and puts all that a check needs into DIR,
#                                          shared libraries included
#   tools/gpu_check.sh --packed DIR        checks with what --pack made: needs the driver, cuBLASLt and python3
#   options of a check: --results FILE     where to add the results (default: tests/bench/RESULTS.md)
#                       --data DIR         folder for generated data (default: a temporary one, in memory where
#                                          there is room, so that no disk is measured)
#                       --rows N           samples of it (default: 8,000,000)
#                       --no-sanitizer     leave compute-sanitizer out
#                       --only PARTS       some of tests,golden,bench (default: all, compute-sanitizer last)
#                       --minutes N        begin nothing after that many, end what runs (default: 9)
#   With $OUT set, a folder, report, numbers (*.jsonl) and logs are put there too.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; }

mode=build folder="" golden="$root/tests/data/golden" results="$root/tests/bench/RESULTS.md" data="" rows=8000000 sanitizer=1
only=tests,golden,bench minutes=9
while [ $# -gt 0 ]; do
  case "$1" in
    --pack) mode=pack folder=${2:?--pack needs a folder}; shift 2 ;;
    --packed) mode=packed folder=${2:?--packed needs a folder}; shift 2 ;;
    --results) results=${2:?--results needs a file}; shift 2 ;;
    --data) data=${2:?--data needs a folder}; shift 2 ;;
    --rows) rows=${2:?--rows needs a number}; shift 2 ;;
    --no-sanitizer) sanitizer=0; shift ;;
    --only) only=${2:?--only needs parts}; shift 2 ;;
    --minutes) minutes=${2:?--minutes needs a number}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) echo "gpu_check.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
done

for part in ${only//,/ }; do
  case "$part" in tests | golden | bench) ;; *) echo "gpu_check.sh: --only: expected some of tests,golden,bench, found '$part'" >&2; exit 2 ;; esac
done
wants() { case ",$only," in *",$1,"*) ;; *) return 1 ;; esac; }
programs="train criteo_synth cuda_tests gpu_embedding_bench train_bench"

build() {
  # $ORIGIN: the programs find the libraries that lie beside them.
  cmake -S "$root" -B "$root/build/gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHLITE_WITH_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES=90 '-DCMAKE_BUILD_RPATH=$ORIGIN' >"$root/build/gpu.configure.log" 2>&1 ||
    { cat "$root/build/gpu.configure.log" >&2; exit 1; }
  cmake --build "$root/build/gpu" -j "$(nproc)" --target $programs hlite_cuda
}

pack() {
  mkdir -p "$1"
  local program library
  for program in $programs libhlite_cuda.so; do
    strip -o "$1/$program" "$root/build/gpu/bin/$program"
  done
  # Everything but what belongs to the system's C library and the driver.
  (cd "$1" && for program in $programs libhlite_cuda.so; do ldd "./$program"; done) |
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
memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1) || memory=0
cap=10000000  # rows of a table: with all of Criteo Terabyte's, tables take 96 GB
if [ "${memory:-0}" -ge 110000 ] 2>/dev/null; then cap=40000000; fi
if [ -z "$data" ] && [ "$(df --output=avail -m /dev/shm 2>/dev/null | tail -n 1)" -gt 8000 ] 2>/dev/null; then
  data=$(mktemp -d -p /dev/shm)
  temporary=$data
fi
work=${data:-$(mktemp -d)}
mkdir -p "$work" "$work/cache"
work=$(cd "$work" && pwd)
out=${OUT:-$work}  # what is written there survives the end of a lease
report="$out/report.md"
export XDG_CACHE_HOME="$work/cache"  # the fastest matrix products of this device, found here
deadline=$((SECONDS + minutes * 60))
failed=0
say() { printf '\n== %s\n' "$*"; }
note() { printf '%s\n' "$*" | tee -a "$report"; }
# Runs a command for at most so many seconds, and none beyond the last minute.
within() {
  local limit=$1 left=$((deadline - SECONDS)) rc=0; shift
  if [ "$left" -lt 5 ]; then echo "left out: the $minutes minutes are over" >&2; return 124; fi
  timeout -k 5 "$((limit < left ? limit : left))" "$@" || rc=$?
  if [ "$rc" = 124 ]; then echo "ended: out of time" >&2; fi
  return "$rc"
}
# A check that may fail without ending the others.
check() {
  local name=$1; shift
  say "$name"
  if "$@" >"$work/$name.log" 2>&1; then note "- $name: passed"; else
    failed=1; note "- $name: FAILED, last lines:"; tail -n 12 "$work/$name.log" | sed 's/^/      /' | tee -a "$report"
  fi
}
# Lines of a check's log, for the report.
quote() { sed 's/^/    /' | tee -a "$report"; }

finish() {
  if [ -w "$results" ]; then cat "$report" >>"$results" && echo "added to $results"; else echo "the report is $report"; fi
  if [ "$out" != "$work" ]; then (cd "$work" && tar -czf "$out/logs.tar.gz" -- *.log) || true; fi
  # Memory, unlike a temporary folder on a disk, is not left full.
  if [ -n "${temporary:-}" ]; then
    if [ "$out" = "$work" ]; then rm -rf "$work"/c.* "$work"/golden; else rm -rf "$work"; fi
  fi
}
trap finish EXIT

printf '\n## GPU check, %s, %s, commit %s\n\n' "$(date -u +%F)" "$device" "$(cat "$folder/commit" 2>/dev/null || true)" >"$report"
export HLITE_REQUIRE_GPU=1
if wants tests; then check "kernel-tests" within 120 "$folder/cuda_tests"; fi

golden_run() { # name, bounds of the losses (first 50, all) and of the AUC, more arguments
  local name=$1 bounds=$2; shift 2
  within 60 "$folder/train" --config "$golden/$name/config.json" --init "$golden/$name/init.safetensors" --device cuda --quiet \
    --set solver.display=1 --metrics "$work/$name.jsonl" --export "$work/$name.safetensors" "$@" || return
  python3 - "$work/$name.jsonl" "$golden/$name" $bounds <<'P'
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
bounds = [float(b) for b in sys.argv[3:6]]
sys.exit(0 if first <= bounds[0] and worst <= bounds[1] and worst_auc <= bounds[2] else 1)
P
}
if wants golden; then
  rm -rf "$work/golden"
  cp -r "$golden" "$work/golden"
  golden="$work/golden"
  gunzip -rf "$golden"
  for name in dlrm_plain dlrm_fused; do
    check "golden-$name" golden_run "$name" "1e-5 5e-3 1e-3"
    tail -n 2 "$work/golden-$name.log" | quote
    cp "$work/$name.safetensors" "$work/$name.first.safetensors" 2>/dev/null || true
    check "golden-$name-without-graph" golden_run "$name" "1e-5 5e-3 1e-3" --set solver.cuda_graph=false
    check "repeat-and-graph-are-the-same-bits-$name" cmp "$work/$name.safetensors" "$work/$name.first.safetensors"
    for precision in bf16 fp16; do
      check "golden-$name-$precision" golden_run "$name" "0.05 0.05 0.004" --set "solver.precision=$precision"
      tail -n 2 "$work/golden-$name-$precision.log" | quote
    done
  done
fi

mlperf_data() {
  within 90 "$folder/criteo_synth" --train "$rows" --test 0 --like criteo --cards terabyte --format raw --out "$work/c" || return
  python3 - "$work" <<'P'
import json, sys
work = sys.argv[1]
fc = lambda name, bottom, n: {"name": name, "type": "FusedInnerProduct", "position": "Isolated", "bottom": bottom,
                              "top": name, "fc_param": {"num_output": n}}
json.dump({
    "solver": {"seed": 7, "lr_policy": "fixed", "display": 100, "max_iter": 600, "batchsize": 65536, "gpu": [0],
               "snapshot": 1000000000, "snapshot_prefix": "./b_", "cuda_graph": True,
               "eval_interval": 300, "eval_batches": 100, "batchsize_eval": 65536},
    "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 1.0}},
    "layers": [
        {"name": "data", "type": "Data", "format": "RawAsync", "source": "c.train.bin", "eval_source": "c.train.bin",
         "check": "None", "cache_eval_data": 100, "slot_size_array": "c.manifest.json", "label": {"top": "label", "label_dim": 1},
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
}
from_file() { # name, more arguments
  local name=$1; shift
  rm -f "$work/mlperf.jsonl"
  within 90 "$folder/train" --config "$work/mlperf.json" --device cuda --metrics "$work/mlperf.jsonl" "$@" || return
  python3 - "$work/mlperf.jsonl" "$name" <<'P'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
rates = [e["samples_per_s"] for e in events if e["event"] == "train"]
last = [e for e in events if e["event"] == "eval"][-1]  # the first one reads the set
print(f"MLPerf DLRM shape from a file, {sys.argv[2]}, batch 65,536: {max(rates):,.0f} samples/s at best, {rates[-1]:,.0f} at the "
      f"end; evaluation of {last['samples']:,} samples with exact AUC: {last['samples'] / last['seconds']:,.0f} samples/s")
P
}
train_bench() { # precision, alpha, batch
  within 60 "$folder/train_bench" --device cuda --shape mlperf --cap "$cap" --precision "$1" --alpha "$2" --batch "$3" \
    --seconds 2 >"$work/train_bench.json" || return
  cat "$work/train_bench.json" >>"$out/train_bench.jsonl"
}
pytorch() {
  # What it has printed until its time is over counts.
  within 190 python3 "$root/tests/bench/pytorch_gpu.py" --shape mlperf --cap "$cap" --batch 65536 --seconds 1 --budget 150 \
    >"$out/pytorch.jsonl" || grep -q samples_per_s "$out/pytorch.jsonl"
}
compare() {
  python3 - "$out/train_bench.jsonl" "$out/pytorch.jsonl" <<'P'
import json, os, sys
ours, theirs = ([json.loads(line) for line in open(f)] if os.path.exists(f) else [] for f in sys.argv[1:])
print("| precision | keys | batch | samples/s | without graph | host, us | % of floor | evaluation, samples/s | lookups and updates/s "
      "| PyTorch, samples/s | ratio |")
print("|---|---|---|---|---|---|---|---|---|---|---|")
for r in ours:
    peers = [t for t in theirs if "samples_per_s" in t and (t["alpha"], t["batch"]) == (r["alpha"], r["batch"])
             and t["precision"] == r["precision"].replace("fp16", "bf16")]
    best = max(peers, key=lambda t: t["samples_per_s"], default=None)
    peer = ratio = "-"
    if best:
        how = best["spelling"] + (", compiled" if best["compiled"] else "") + (", graph" if best["graph"] else "")
        peer, ratio = f"{best['samples_per_s']:,} ({how})", f"{r['samples_per_s'] / best['samples_per_s']:.2f}"
    keys = "uniform" if r["alpha"] == 0 else f"Zipf {r['alpha']}"
    print(f"| {r['precision']} | {keys}, {r['distinct_rows_per_lookup']:.2f} distinct | {r['batch']:,} | {r['samples_per_s']:,} "
          f"| {r['samples_per_s_without_graph']:,} | {r['host_us']:.1f} | {100 * r['floor_ms'] / r['ms']:.0f} "
          f"| {r['eval_samples_per_s']:,} | {r['lookups_per_s'] / 1e9:.2f} G | {peer} | {ratio} |")
if ours:
    r = ours[0]
    print(f"\nTables of up to {r['cap']:,} rows; copy {r['copy_gbs']:,.0f} GB/s, from host memory {r['host_copy_gbs']:.1f}; matrix "
          "products in TFLOP/s: " + ", ".join(f"{p} {t:.0f}" for p, t in {q["precision"]: q["tflops"] for q in ours}.items()))
    print(f"\nSteps, {r['precision']}, batch {r['batch']:,}, alpha {r['alpha']}:\n\n| step | ms | MB | GFLOP | GB/s | TFLOP/s | % of floor |\n"
          "|---|---|---|---|---|---|---|")
    for s in r["train_steps"] + [dict(e, name="evaluation: " + e["name"]) for e in r["eval_steps"]]:
        print(f"| {s['name']} | {s['ms']:.4f} | {s['bytes'] / 1e6:.1f} | {s['flops'] / 1e9:.1f} | {s['bytes'] / s['ms'] / 1e6:.0f} "
              f"| {s['flops'] / s['ms'] / 1e9:.0f} | {100 * s['floor_ms'] / s['ms']:.0f} |")
sys.exit(not ours)
P
}
if wants bench; then
  rm -f "$out/train_bench.jsonl" "$out/pytorch.jsonl"
  # The first is the one whose steps are listed.
  for run in "bf16 1.05 65536" "bf16 0 65536" "bf16 1.05 4096" "tf32 1.05 65536" "tf32 0 65536" "fp16 1.05 65536" "fp16 0 65536"; do
    read -r precision alpha batch <<<"$run"
    name="train_bench-$precision-alpha-$alpha-batch-$batch"
    check "$name" train_bench "$precision" "$alpha" "$batch"
    tail -n 4 "$work/$name.log" | sed 's/^/    /'
  done
  if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    check "pytorch" pytorch
  else
    note "- pytorch: not run: python3 has no PyTorch that sees the GPU"
  fi
  check "compare" compare
  printf '\n' | tee -a "$report"
  tee -a "$report" <"$work/compare.log"
  printf '\n' | tee -a "$report"
  check "embedding" within 60 "$folder/gpu_embedding_bench"
  quote <"$work/embedding.log"
  if [ "$cap" -ge 40000000 ]; then
    check "mlperf-data" mlperf_data
    for precision in bf16 tf32; do
      how="solver.precision=bf16"
      if [ "$precision" = tf32 ]; then how="solver.enable_tf32_compute=true"; fi
      check "mlperf-shape-$precision" from_file "$precision" --set "$how"
      tail -n 1 "$work/mlperf-shape-$precision.log" | quote
    done
  else
    note "- mlperf-shape: not run: its tables take 96 GB"
  fi
fi

# Last, because it is slow and the rest can do without.
if wants tests && [ "$sanitizer" = 1 ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    check "compute-sanitizer-$tool" within 150 compute-sanitizer --tool "$tool" --error-exitcode 9 "$folder/cuda_tests" "*kernels*"
  done
fi
exit "$failed"
