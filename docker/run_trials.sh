#!/usr/bin/env bash
# NEXP timed runs of a config_*.sh, each with a seed of its own, in containers or on the host.
#
#   source docker/config_SYSTEM.sh; CONT=IMAGE DATADIR=/data LOGDIR=$PWD/results docker/run_trials.sh
#
# ENGINE: docker (default), podman, apptainer, or none (on the host, with train on PATH or TRAIN).
# NEXP (1) runs; CLEAR_CACHES (1): drop the page cache before each, as root or through sudo, else say so.
# GPUS: what docker's --gpus or podman's --device takes (all); empty: none. DRY_RUN prints the commands.
# What run_and_time.sh takes is handed on. Ends with the code of the first run that fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

ENGINE=${ENGINE:-docker} NEXP=${NEXP:-1} CLEAR_CACHES=${CLEAR_CACHES:-1} LOGDIR=${LOGDIR:-$PWD/results}
: "${DATADIR:?run_trials.sh: expected DATADIR, the folder of the data}"
mkdir -p "$LOGDIR"
LOGDIR=$(cd "$LOGDIR" && pwd)
DATADIR=$(cd "$DATADIR" && pwd)
case "$ENGINE" in
  none) ;;
  docker | podman | apptainer)
    : "${CONT:?run_trials.sh: expected CONT, the image (docker/build.sh makes one)}"
    [ -n "${DRY_RUN:-}" ] || command -v "$ENGINE" >/dev/null ||
      { echo "run_trials.sh: ENGINE $ENGINE is not installed; ENGINE=none runs on the host" >&2; exit 2; } ;;
  *) echo "run_trials.sh: ENGINE: expected docker, podman, apptainer or none, found $ENGINE" >&2; exit 2 ;;
esac

clear_caches() {
  export CACHE_CLEARED=true
  [ "$CLEAR_CACHES" = 1 ] || { CACHE_CLEARED=false; return 0; }
  local drop='sync && echo 3 >/proc/sys/vm/drop_caches'
  if [ "$(id -u)" = 0 ]; then bash -c "$drop" 2>/dev/null && return 0; fi
  if command -v sudo >/dev/null && sudo -n bash -c "$drop" 2>/dev/null; then return 0; fi
  CACHE_CLEARED=false
  echo "warning: the page cache is not cleared (that takes root); the log says cache_clear false" >&2
}

# Variables of run_and_time.sh that are set here, as the engine takes them.
handed_on=(CONFIG BENCHMARK TRAIN_FILE EVAL_FILE DIVISION SUBMITTER PLATFORM STATUS DGXSYSTEM DLRM_BIND MPIRUN
  CACHE_CLEARED BATCH_SIZE MAX_ITER EVAL_INTERVAL DISPLAY_INTERVAL AUC_THRESHOLD TRAIN_ARGS DRY_RUN)
variables() {
  local name
  for name in "${handed_on[@]}"; do
    [ -z "${!name:-}" ] || printf '%s\n' --env "$name=${!name}"
  done
  printf '%s\n' --env "TRIAL=$1" --env "SEED=$2" --env DATADIR=/data --env LOGDIR=/results
}

in_container() {  # trial, seed
  local words command
  mapfile -t words < <(variables "$1" "$2")
  case "$ENGINE" in
    docker)
      command=(docker run --rm --init --net=host --ipc=host --ulimit memlock=-1 --ulimit stack=67108864
        --cap-add SYS_NICE --user "$(id -u):$(id -g)" ${GPUS:+--gpus "$GPUS"}) ;;
    podman)
      command=(podman run --rm --init --net=host --ipc=host --ulimit memlock=-1 --ulimit stack=67108864
        --cap-add SYS_NICE --userns=keep-id ${GPUS:+--device "nvidia.com/gpu=$GPUS"}) ;;
    apptainer)
      command=(apptainer exec --cleanenv --bind "$DATADIR:/data:ro" --bind "$LOGDIR:/results" ${GPUS:+--nv}) ;;
  esac
  [ "$ENGINE" = apptainer ] || command+=(--volume "$DATADIR:/data:ro" --volume "$LOGDIR:/results")
  command+=("${words[@]}" "$CONT" run_and_time.sh)
  if [ -n "${DRY_RUN:-}" ]; then printf '%q ' "${command[@]}"; echo; else "${command[@]}"; fi
}

for ((trial = 0; trial < NEXP; ++trial)); do
  seed=${SEED:-$RANDOM$RANDOM}
  [ -n "${DRY_RUN:-}" ] || clear_caches
  echo "== run $((trial + 1)) of $NEXP, seed $seed"
  if [ "$ENGINE" = none ]; then
    TRIAL=$trial SEED=$seed DATADIR=$DATADIR LOGDIR=$LOGDIR "$here/run_and_time.sh"
  else
    in_container "$trial" "$seed"
  fi
done
