#include "embedding/device_placement.h"

#include <vector>

#include "embedding/cutter.h"
#include "hugectr_lite/core/error.h"

namespace hlite::embedding {
namespace {

struct PlacementArrays {
  std::vector<PlacementRef::Shards> shards;
  std::vector<int> rank;
  std::vector<int64_t> row;
  std::vector<uint32_t> first_number;
};

// Numbers the tables of each rank; hashed tables have no replicated rows.
PlacementArrays hashed_arrays(const RowPlacement& placement) {
  PlacementArrays a;
  const int64_t tables = placement.layout().tables();
  for (int q = 0; q <= placement.ranks(); ++q)
    a.first_number.push_back(static_cast<uint32_t>(q * tables));
  a.first_number.push_back(a.first_number.back());
  return a;
}

PlacementArrays arrays_of(const Exec& exec, const RowPlacement& placement) {
  if (placement.hashed()) return hashed_arrays(placement);
  PlacementArrays a;
  int64_t next = 0;
  for (int q = 0; q < placement.ranks(); ++q) {
    a.first_number.push_back(static_cast<uint32_t>(next));
    next += placement.rows_of(q);
  }
  a.first_number.push_back(static_cast<uint32_t>(next));
  next += placement.replicated_rows();
  a.first_number.push_back(static_cast<uint32_t>(next));
  if (exec.on_gpu() && next >= int64_t{kNoRow})
    raise<DeviceError>(
        "embedding on GPUs: expected fewer than 2^32 - 1 rows on all ranks, found {}", next);
  for (int64_t t = 0; !placement.model() && t < placement.layout().tables(); ++t) {
    const auto& ranks = placement.shards(t);
    const auto& rows = placement.first_rows(t);
    a.shards.push_back({static_cast<int32_t>(a.row.size()), static_cast<int32_t>(ranks.size())});
    a.rank.insert(a.rank.end(), ranks.begin(), ranks.end());
    if (ranks.empty()) a.rank.push_back(-1);
    a.row.insert(a.row.end(), rows.begin(), rows.end());
  }
  return a;
}

}  // namespace

DevicePlacement::DevicePlacement(const Exec& exec, const RowPlacement& placement) {
  const PlacementArrays a = arrays_of(exec, placement);
  const CategoryModel* const model = placement.model();
  const CategoriesRef of_host = model ? model->ref() : CategoriesRef{};
  const auto words = static_cast<int64_t>(model ? model->words() : 0),
             frequent = model ? std::ssize(model->frequent()) : 0;
  std::byte* memory = nullptr;
  for (const bool counting : {true, false}) {
    Cutter cutter(memory);
    const auto put = [&]<typename T>(const T* from, int64_t n) -> const T* {
      T* const to = cutter.cut<T>(n);
      if (!counting) put_bytes(exec, to, from, static_cast<size_t>(n) * sizeof(T));
      return to;
    };
    ref_.categories = {.bits = put(of_host.bits, words),
                       .before = put(of_host.before, words),
                       .index = put(of_host.index, frequent),
                       .ranks = of_host.ranks};
    if (!model) ref_.categories.bits = nullptr;
    ref_.shards = put(a.shards.data(), std::ssize(a.shards));
    ref_.shard_rank = put(a.rank.data(), std::ssize(a.rank));
    ref_.shard_row = put(a.row.data(), std::ssize(a.row));
    ref_.first_number = put(a.first_number.data(), std::ssize(a.first_number));
    if (counting) memory_ = ExecMemory(exec, cutter.bytes(), "placement of rows");
    memory = memory_.data();
  }
  ref_.ranks = placement.ranks();
  if (placement.hashed()) ref_.hashed_tables = static_cast<int32_t>(placement.layout().tables());
  ref_.by = placement.owner();
  ref_.numbers = a.first_number.back();
}

}  // namespace hlite::embedding
