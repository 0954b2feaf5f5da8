# shellcheck shell=bash
# MLPerf training 6.1's dlrmv4 on 8 nodes of 8 GPUs. The data: docs/gallery/yambda.py prepare (docs/histories.md).
export DGXSYSTEM=DLRMV4_8x8x128 DGXNNODES=8 DGXNGPU=8
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/mlperf_dlrmv4.json} BENCHMARK=dlrmv4
export TRAIN_FILE=train EVAL_FILE=test WALLTIME=06:00:00
