# The plug-in's sources: for nvcc here, for the C++ compiler in tests/support/cuda_emulation.
set(hlite_cuda_sources
  embedding/lookup.cu
  embedding/segment_update.cu
  embedding/sparse_update.cu
  hugectr_lite/core/fill.cu
  hugectr_lite/cuda/device_report.cpp
  hugectr_lite/cuda/op_table.cu
  hugectr_lite/ops/add.cu
  hugectr_lite/ops/bce_loss.cu
  hugectr_lite/ops/cast.cu
  hugectr_lite/ops/concat.cu
  hugectr_lite/ops/cublaslt.cu
  hugectr_lite/ops/dropout.cu
  hugectr_lite/ops/epilogue_check.cpp
  hugectr_lite/ops/fully_connected.cu
  hugectr_lite/ops/interaction.cu
  hugectr_lite/ops/interaction_fma.cu
  hugectr_lite/ops/interaction_tensor_core.cu
  hugectr_lite/ops/matmul.cu
  hugectr_lite/ops/matmul_algorithms.cpp
  hugectr_lite/ops/matmul_judge.cu
  hugectr_lite/ops/matmul_search.cu
  hugectr_lite/ops/regularizer.cu
  hugectr_lite/ops/relu.cu
  hugectr_lite/ops/scan.cu
  hugectr_lite/optimizer/advance_schedules.cu
  hugectr_lite/optimizer/dense_update.cu
  hugectr_lite/optimizer/loss_scale.cu
  hugectr_lite/trainer/evaluation.cu)
# CUB's kernels spill a register here and there: not ours to mend.
set(hlite_cub_sources hugectr_lite/core/device_sort.cu)
list(TRANSFORM hlite_cuda_sources PREPEND ${PROJECT_SOURCE_DIR}/)
list(TRANSFORM hlite_cub_sources PREPEND ${PROJECT_SOURCE_DIR}/)
