#include "hugectr_lite/trainer/model/replicated_row_sum.h"

namespace hlite::trainer {

ReplicatedRowSum::ReplicatedRowSum(const comm::RankContext& ranks, const SumOptions& options,
                                   bool grouped, const ModelLayers& layers)
    : grouped_(grouped) {
  for (const auto& e : layers.embeddings)
    rows_.push_back({e->name(), e->tables().steps().exchange(),
                     grouped ? nullptr : std::make_unique<SummedBuffer>(ranks, options)});
}

int64_t ReplicatedRowSum::grouped_bytes() const {
  int64_t bytes = 0;
  for (const LayerRows& of : rows_) bytes += grouped_ ? of.bytes() : 0;
  return bytes;
}

void ReplicatedRowSum::declare(plan::Buffers& buffers, const DenseAllReduce& dense) {
  int64_t at = dense.grouped_at();
  for (const LayerRows& of : rows_) {
    const std::string name = of.layer + ".replicated_gradients";
    if (of.own) {
      of.own->declare(buffers, name, of.bytes());
      of.tables->set_replicated_gradients(of.own->gradients());
    } else {
      of.tables->set_replicated_gradients(
          buffers.slice(name, dense.reduced().gradients(), at, of.bytes()));
      at += of.bytes();
    }
  }
}

void ReplicatedRowSum::emit(plan::Plan& plan) {
  for (const LayerRows& of : rows_)
    if (of.own && of.bytes() > 0)
      of.own->emit(plan,
                   {.name = of.layer + ".replicated_gradients.all_reduce",
                    .reads = {of.own->gradients()},
                    .writes = {},
                    .run = [own = of.own.get()](const plan::StepContext& c) { own->sum(c.exec); }});
}

std::vector<comm::StepTraffic> ReplicatedRowSum::traffic(int64_t runs,
                                                         const SummedBuffer& grouped) const {
  std::vector<comm::StepTraffic> list;
  for (const LayerRows& of : rows_) {
    const SummedBuffer& sum = of.own ? *of.own : grouped;
    if (of.bytes() > 0)
      list.push_back(
          {of.layer + ".copies_all_reduce", sum.traffic(runs, sum.wire_bytes(of.bytes()))});
  }
  return list;
}

}  // namespace hlite::trainer
