# shellcheck shell=bash
# DLRM of MLPerf training 1.0 on 14 DGX A100, 8 GPUs each.
export DGXSYSTEM=DGXA100_14x8x640 DGXNNODES=14 DGXNGPU=8
export CONFIG=${CONFIG:-/usr/local/share/hugectr_lite/configs/mlperf_dgx_a100_14x8x640.json} BENCHMARK=dlrm
export TRAIN_FILE=train_data.bin EVAL_FILE=test_data.bin WALLTIME=00:30:00
