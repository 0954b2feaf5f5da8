#include "embedding/host_rows.h"

#include <algorithm>

#include "embedding/number_rows.h"

namespace hlite::embedding {

HostRows::HostRows(const TablesSpec& spec, int64_t rows, HashedIndex* index, int64_t max_batch)
    : index_(index),
      slots_(Exec{}, index ? spec.layout.pooled(rows) : spec.layout),
      max_keys_(max_batch * spec.layout.keys.columns),
      columns_(spec.key_columns, spec.batch_columns) {}

int64_t HostRows::bytes() const {
  return (columns_.selects() ? 3 : 1) * max_keys_ * static_cast<int64_t>(sizeof(uint32_t));
}

void HostRows::prepare() {
  columns_.prepare(Exec{});
  for (HostMemory& keys : selected_)
    if (columns_.selects())
      keys = HostMemory(static_cast<size_t>(max_keys_) * sizeof(uint32_t), "keys of a batch");
  next_keys_.reserve(static_cast<size_t>(max_keys_));
}

HostRows::Shape HostRows::shape(int64_t batch) const {
  return {batch, slots().columns, slots().first_column, slots().lookups};
}

Matrix<const uint32_t> HostRows::own_keys(const Exec& host, const uint32_t* keys, int64_t batch,
                                          Batch of) const {
  const int64_t columns = slots().columns;
  if (!columns_.selects()) return {keys, batch, columns};
  const Matrix<uint32_t> own(reinterpret_cast<uint32_t*>(selected_[of].data()), batch, columns);
  columns_.select(host, keys, own);
  return own;
}

void HostRows::begin_run(const Exec& host, const plan::HostInput& input, int64_t batch) {
  keys_[kThis] = own_keys(host, input.keys, batch, kThis);
  const uint32_t* const first = keys_[kThis].data();
  was_next_ = has_next_ &&
              std::equal(first, first + keys_[kThis].size(), next_keys_.begin(), next_keys_.end());
  has_next_ = input.next_keys != nullptr;
  if (!has_next_) return;
  keys_[kNext] = own_keys(host, input.next_keys, input.next_batch, kNext);
  next_keys_.assign(keys_[kNext].data(), keys_[kNext].data() + keys_[kNext].size());
}

int64_t HostRows::find(const Exec& host, Batch of, uint32_t* rows, bool training) {
  const Matrix<uint32_t> out(rows, keys_[of].dim(0), keys_[of].dim(1));
  if (!index_) {
    number_rows(host, slots(), keys_[of], out);
    return 0;
  }
  index_->find_rows(host, slots(), keys_[of], out, training);
  return index_->size();
}

}  // namespace hlite::embedding
