#include "embedding/key_errors.h"

#include "hugectr_lite/core/error.h"

namespace hlite::embedding {

KeyErrors::KeyErrors(const Exec& exec, int64_t columns)
    : columns_(columns), record_(*exec.cuda, sizeof(KeyErrorRecord)), fetched_(*exec.cuda) {
  exec.cuda->zero(record_.data(), record_.size(), exec.stream);
  exec.cuda->stream_synchronize(exec.stream);  // lookups come on other streams
}

void KeyErrors::fetch(const Exec& exec) {
  exec.cuda->copy(fetched_.get(), record_.data(), record_.size(), exec.stream);
}

std::optional<KeyError> KeyErrors::found() const {
  if (fetched_->index_and_key == 0) return std::nullopt;
  const unsigned long long index_and_key = ~fetched_->index_and_key;
  const auto index = static_cast<int64_t>(index_and_key >> 32);
  return KeyError{.step = static_cast<int64_t>(~fetched_->step),
                  .sample = index / columns_,
                  .column = index % columns_,
                  .key = static_cast<uint32_t>(index_and_key)};
}

void LayerKeyErrors::allocate(const Exec& exec, int64_t columns) {
  if (!exec.on_gpu()) return;
  training_ = std::make_unique<KeyErrors>(exec, columns);
  evaluation_ = std::make_unique<KeyErrors>(exec, columns);
}

KeyRecorder LayerKeyErrors::check(bool training, const int64_t* step) const {
  if (!training_) return {};
  return training ? training_->check(step) : evaluation_->check(nullptr);
}

void LayerKeyErrors::report(const std::string& layer, const Exec& exec) {
  for (KeyErrors* const errors : {training_.get(), evaluation_.get()}) {
    if (!errors) continue;
    errors->fetch(exec);
    exec.cuda->stream_synchronize(exec.stream);
    const auto error = errors->found();
    if (!error) continue;
    raise<DeviceError>(
        "{}: a lookup on the GPU met a key beyond its table: {} in column {} of sample {} of the "
        "batch in {}; the reader lets none pass, so the batch changed on its way: a fault of "
        "memory, or of this program",
        layer, error->key, error->column, error->sample,
        errors == training_.get() ? fmt::format("iteration {}", error->step + 1) : "an evaluation");
  }
}

}  // namespace hlite::embedding
