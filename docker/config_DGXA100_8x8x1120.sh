# shellcheck shell=bash
# DLRM of MLPerf training 1.0 on 8 DGX A100, 8 GPUs each.
export DGXSYSTEM=DGXA100_8x8x1120 DGXNNODES=8 DGXNGPU=8
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/mlperf_dgx_a100_8x8x1120.json} BENCHMARK=dlrm
export TRAIN_FILE=train_data.bin EVAL_FILE=test_data.bin WALLTIME=00:30:00
