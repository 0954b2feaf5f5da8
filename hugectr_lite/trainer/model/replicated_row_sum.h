// ReplicatedRowSum: sums the gradients of the embedding rows that every rank holds over ranks: with
// the dense gradients in one all-reduce, or, where the config does not group them, in one of each
// layer.
#pragma once

#include <memory>
#include <vector>

#include "hugectr_lite/trainer/model/build_layers.h"
#include "hugectr_lite/trainer/model/dense_all_reduce.h"

namespace hlite::trainer {

class ReplicatedRowSum {
 public:
  // The layers must outlive it.
  ReplicatedRowSum(const comm::RankContext& ranks, const SumOptions& options, bool grouped,
                   const ModelLayers& layers);

  // Bytes of gradients that travel with the dense ones.
  [[nodiscard]] int64_t grouped_bytes() const;
  // Sets where the tables' gradients go. After `dense` was declared.
  void declare(plan::Buffers& buffers, const DenseAllReduce& dense);
  // Adds "<layer>.replicated_gradients.all_reduce" where they are not grouped. Collective.
  void emit(plan::Plan& plan);
  // "<layer>.copies_all_reduce"; a grouped sum is counted by what its parts have of it.
  [[nodiscard]] std::vector<comm::StepTraffic> traffic(int64_t runs,
                                                       const SummedBuffer& grouped) const;

 private:
  struct LayerRows {
    std::string layer;
    embedding::RowExchange* tables;
    std::unique_ptr<SummedBuffer> own = nullptr;  // where they are not grouped
    [[nodiscard]] int64_t bytes() const {
      return SummedBuffer::aligned(tables->replicated_gradient_bytes());
    }
  };

  const bool grouped_;
  std::vector<LayerRows> rows_;
};

}  // namespace hlite::trainer
