#!/usr/bin/env bash
# One timed training run by the rules of a benchmark, in a container or on the host. The exit code
# is the trainer's.
#
#   source docker/config_SYSTEM.sh; DATADIR=/data LOGDIR=/results docker/run_and_time.sh
#
# From the config_*.sh: CONFIG, BENCHMARK (dlrm, dlrm_dcnv2, dlrmv4), TRAIN_FILE and EVAL_FILE (in DATADIR).
# Also taken:  LOGDIR (./results), TRIAL (0), SEED (drawn), TRAIN (the program; on PATH), MPIRUN (a
# launcher's words),
#   DLRM_BIND (words before the program, such as numactl's), CACHE_CLEARED (false), DIVISION (open), SUBMITTER,
#   PLATFORM, STATUS, BATCH_SIZE, MAX_ITER, EVAL_INTERVAL, DISPLAY_INTERVAL, AUC_THRESHOLD, TRAIN_ARGS (more words for the trainer)
# Written to LOGDIR: result_TRIAL.txt (MLPerf log), metrics_TRIAL.jsonl, output_TRIAL.txt,
# report_TRIAL.html.
set -euo pipefail

fail() { echo "run_and_time.sh: $*" >&2; exit 2; }
: "${CONFIG:?run_and_time.sh: expected CONFIG, the training config (source a config_*.sh)}"
: "${DATADIR:?run_and_time.sh: expected DATADIR, the folder of the data}"
TRIAL=${TRIAL:-0} SEED=${SEED:-$RANDOM} TRAIN=${TRAIN:-train} BENCHMARK=${BENCHMARK:-dlrm} DIVISION=${DIVISION:-open}
LOGDIR=${LOGDIR:-./results}
mkdir -p "$LOGDIR" || fail "cannot make LOGDIR $LOGDIR"
LOGDIR=$(cd "$LOGDIR" && pwd)
command -v "$TRAIN" >/dev/null || fail "expected the program train on PATH, or TRAIN to name it; found TRAIN=$TRAIN"
[ -f "$CONFIG" ] || fail "CONFIG: no file $CONFIG"
for file in "$TRAIN_FILE" "$EVAL_FILE"; do
  [ -r "$DATADIR/$file" ] || fail "expected the data file $DATADIR/$file to be readable: is DATADIR mounted?"
done
[ -w "$LOGDIR" ] || fail "expected LOGDIR $LOGDIR to be writable for user $(id -u)"

# What a container's defaults get wrong, in words; the run goes on.
limit() {  # name, ulimit option, least KiB, how to raise it
  local now
  now=$(ulimit "$2")
  [ "$now" = unlimited ] || [ "$now" -ge "$3" ] || echo "warning: $1 is limited to $now KiB: $4" >&2
}
limit "locked memory" -l 65536 "--ulimit memlock=-1"
limit "the stack" -s 8192 "--ulimit stack=67108864"
if [ -n "${MPIRUN:-}" ] && [ "$(df --output=size -k /dev/shm 2>/dev/null | tail -n 1)" -lt 1048576 ]; then
  echo "warning: /dev/shm is below 1 GiB: --ipc=host or --shm-size=1g" >&2
fi

arguments=(--config "$CONFIG" --mllog "$LOGDIR/result_$TRIAL.txt" --metrics "$LOGDIR/metrics_$TRIAL.jsonl"
  --report "$LOGDIR/report_$TRIAL.html"
  --submission "division=$DIVISION" --submission "cache_clear=${CACHE_CLEARED:-false}" --set "solver.benchmark=$BENCHMARK" --set "solver.seed=$SEED"
  --set "solver.snapshot_prefix=$LOGDIR/snapshot_${TRIAL}_"  # the config's folder is read-only in an image
  --set "layers[0].source=$DATADIR/$TRAIN_FILE" --set "layers[0].eval_source=$DATADIR/$EVAL_FILE")
[ -z "${SUBMITTER:-}" ] || arguments+=(--submission "org=$SUBMITTER")
[ -z "${PLATFORM:-${DGXSYSTEM:-}}" ] || arguments+=(--submission "platform=${PLATFORM:-$DGXSYSTEM}")
[ -z "${STATUS:-}" ] || arguments+=(--submission "status=$STATUS")
[ -z "${BATCH_SIZE:-}" ] || arguments+=(--set "solver.batchsize=$BATCH_SIZE")
[ -z "${MAX_ITER:-}" ] || arguments+=(--set "solver.max_iter=$MAX_ITER")
[ -z "${EVAL_INTERVAL:-}" ] || arguments+=(--set "solver.eval_interval=$EVAL_INTERVAL")
[ -z "${DISPLAY_INTERVAL:-}" ] || arguments+=(--set "solver.display=$DISPLAY_INTERVAL")
[ -z "${AUC_THRESHOLD:-}" ] || arguments+=(--set "solver.eval_metrics=[\"AUC:$AUC_THRESHOLD\"]")
read -r -a more <<<"${TRAIN_ARGS:-}"
read -r -a before <<<"${MPIRUN:-} ${DLRM_BIND:-}"
command=(${before[@]+"${before[@]}"} "$TRAIN" "${arguments[@]}" ${more[@]+"${more[@]}"})
if [ -n "${DRY_RUN:-}" ]; then printf '%q ' "${command[@]}"; echo; exit 0; fi

start=$(date +%s.%N)
code=0
"${command[@]}" > >(tee "$LOGDIR/output_$TRIAL${SLURM_PROCID:+.$SLURM_PROCID}.txt") 2>&1 || code=$?
seconds=$(awk -v from="$start" -v to="$(date +%s.%N)" 'BEGIN { printf "%.1f", to - from }')
echo "RESULT,${BENCHMARK^^},$seconds,$(id -un 2>/dev/null || id -u),seed $SEED,exit $code"
exit "$code"
