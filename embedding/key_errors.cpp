#include "embedding/key_errors.h"

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

}  // namespace hlite::embedding
