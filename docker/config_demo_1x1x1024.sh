# shellcheck shell=bash
# The demo's model on a million synthetic samples (tools/demo.sh makes them in demo/), to its target in a minute.
export DGXSYSTEM=demo_1x1x1024 DGXNNODES=1 DGXNGPU=1
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/demo.json} BENCHMARK=${BENCHMARK:-dlrm}
export TRAIN_FILE=train.bin EVAL_FILE=val.bin AUC_THRESHOLD=${AUC_THRESHOLD:-0.855} WALLTIME=00:10:00
