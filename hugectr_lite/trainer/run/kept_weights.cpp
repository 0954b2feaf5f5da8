#include "hugectr_lite/trainer/run/kept_weights.h"

#include <filesystem>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/model_tensors.h"

namespace hlite::trainer {

static std::vector<TensorRef> joined(std::vector<TensorRef> weights,
                                     std::vector<TensorRef> states) {
  std::move(states.begin(), states.end(), std::back_inserter(weights));
  return weights;
}

// Rank 0 knows the path; every rank opens the file, for its own rows.
void KeptWeights::keep(const std::string& name) {
  std::string path;
  if (run_.outputs) path = run_.outputs->scratch(name);
  run_.model->synchronize();
  std::vector<TensorRef> tensors = weights_of(*run_.model);
  if (with_states_) tensors = joined(std::move(tensors), states_of(*run_.model));
  struct {
    FileSum sum;
    int64_t length;
  } written{.sum = saver_.write_tensors(path, tensors), .length = std::ssize(path)};
  const comm::RankContext& ranks = run_.ranks;
  if (ranks.ranks() > 1) {
    const Exec exec = run_.exec();
    ranks.world->broadcast(exec, std::as_writable_bytes(std::span(&written, 1)), 0);
    path.resize(static_cast<size_t>(written.length));
    ranks.world->broadcast(exec, std::as_writable_bytes(std::span(path)), 0);
  }
  auto file = std::make_unique<ReadFile>(path);
  if (ranks.ranks() > 1) ranks.world->barrier();  // all have it open
  adopt(std::move(file), written.sum);
  if (ranks.rank == 0) place_ = path;
  if (!comm::under_mpirun() || run_.config.solver.gpu.size() == 1) remove_name();
}

void KeptWeights::remove_name() {
  std::error_code error;  // a file that is gone already
  if (!place_.empty()) std::filesystem::remove(std::exchange(place_, ""), error);
}

void KeptWeights::drop() {
  file_ = nullptr;
  remove_name();
}

void KeptWeights::adopt(std::unique_ptr<ReadFile> file, const FileSum& sum) {
  drop();
  file_ = std::move(file);
  sum_ = sum;
}

void KeptWeights::load() {
  HLITE_CHECK(file_ != nullptr, "no weights are kept");
  Model& model = *run_.model;
  model.between_runs([&] {
    std::vector<TensorRef> tensors =
        weights_to_read(model, *file_, with_states_ ? file_.get() : nullptr);
    if (with_states_)
      tensors = joined(std::move(tensors), states_to_read(model, *file_, run_.iteration));
    const FileSum found = checkpoint::SafetensorsReader(*file_).read_all(tensors);
    if (found.bytes != sum_.bytes || found.xxh3_64 != sum_.xxh3_64)
      raise<DataError>("{}: expected the weights that this run wrote, with checksum {}, found {}",
                       file_->name(), sum_.digits(), found.digits());
    weights_changed(model);
  });
}

}  // namespace hlite::trainer
