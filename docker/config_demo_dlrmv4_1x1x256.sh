# shellcheck shell=bash
# DLRM-HSTU scaled down, on a generated log like Yambda's (docs/histories.md makes it), to its target in minutes.
export DGXSYSTEM=demo_dlrmv4_1x1x256 DGXNNODES=1 DGXNGPU=1
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/demo_dlrmv4.json} BENCHMARK=${BENCHMARK:-dlrmv4}
export TRAIN_FILE=train EVAL_FILE=test AUC_THRESHOLD=${AUC_THRESHOLD:-0.8} WALLTIME=00:10:00
