#include "hugectr_lite/predict/mapped_weights.h"

#include "embedding/tables_spec.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/model_tensors.h"

namespace hlite::predict {

namespace {
DType dtype_of(FloatType type) {
  return type == FloatType::kFloat  ? DType::kF32
         : type == FloatType::kBf16 ? DType::kBf16
                                    : DType::kF16;
}
}  // namespace

MappedWeights::MappedWeights(const std::string& model)
    : weights_(checkpoint::weights_in(model)),
      file_(weights_.path),
      memory_(file_),
      reader_(file_) {}

// Returns the address where the tables of a layer begin, if they follow each other in the file as
// in memory; else null.
std::byte* MappedWeights::tables_at(const embedding::EmbeddingLayer& layer) const {
  const embedding::TableStorage& storage = layer.tables().storage();
  if (layer.hashed() || storage.placement() != nullptr || storage.tier() != nullptr) return nullptr;
  const embedding::SlotLayout& layout = layer.layout();
  int64_t begin = -1, end = -1;
  for (int64_t t = 0; t < layout.tables(); ++t) {
    const auto* const tensor = reader_.find(embedding::table_name(layer.name(), t));
    const int64_t rows = layout.table_rows[static_cast<size_t>(t)];
    if (tensor == nullptr || tensor->dtype != dtype_of(layer.table_type()) ||
        tensor->shape != std::vector<int64_t>{rows, layout.width} ||
        reader_.find(tensor->name + ".keys") != nullptr || (end >= 0 && tensor->begin != end))
      return nullptr;
    if (begin < 0) begin = tensor->begin;
    end = tensor->end;
  }
  if (begin < 0 || end > static_cast<int64_t>(memory_.bytes().size())) return nullptr;
  return const_cast<std::byte*>(memory_.bytes().data()) + begin;
}

std::vector<plan::LentMemory> MappedWeights::lend(const trainer::Model& model) {
  std::vector<plan::LentMemory> list;
  if (model.gpu() != nullptr) return list;
  for (const auto& layer : model.layers().embeddings) {
    std::byte* const at = tables_at(*layer);
    if (at == nullptr) continue;
    list.push_back({.buffer = layer->tables().storage().rows().own_weights(), .data = at});
    for (int64_t t = 0; t < layer->layout().tables(); ++t)
      lent_.insert(embedding::table_name(layer->name(), t));
  }
  return list;
}

void MappedWeights::read_others(trainer::Model& model) const {
  reader_.read_others(trainer::weights_to_read(model, file_), lent_);
  file_.expect_unchanged();
}

void MappedWeights::expect_unchanged() const {
  if (lent_.empty()) return;  // everything is in the model's own memory
  file_.expect_unchanged();
  if (memory_.has_lost_pages())
    raise<FileError>("{}: a part of the file cannot be read any more", file_.name());
}

void MappedWeights::verify() const {
  if (!weights_.sum) return;
  file_.expect_unchanged();
  checkpoint::verify_weights(file_, *weights_.sum);
}

}  // namespace hlite::predict
