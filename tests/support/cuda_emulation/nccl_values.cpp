#include "tests/support/cuda_emulation/nccl_values.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hugectr_lite/core/half.h"

namespace hlite::emulation {
namespace {

template <typename T>
T one_of(ncclRedOp_t op, T a, T b) {
  return op == ncclSum ? static_cast<T>(a + b) : op == ncclMax ? std::max(a, b) : std::min(a, b);
}

template <typename T>
T value_at(const std::byte* values, size_t i) {
  T value;
  std::memcpy(&value, values + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void combine_values(ncclRedOp_t op, std::span<const std::byte* const> ranks,
                    std::vector<std::byte>& result) {
  for (size_t i = 0; i < result.size() / sizeof(T); ++i) {
    T value = value_at<T>(ranks[0], i);
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, fp16>) {
      float sum = to_float(value);
      for (const std::byte* const rank : ranks.subspan(1))
        sum = one_of(op, sum, to_float(value_at<T>(rank, i)));
      value = from_float<T>(sum);
    } else {
      for (const std::byte* const rank : ranks.subspan(1))
        value = one_of(op, value, value_at<T>(rank, i));
    }
    std::memcpy(result.data() + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

size_t type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

std::vector<std::byte> combine(ncclDataType_t type, ncclRedOp_t op, size_t count,
                               std::span<const std::byte* const> ranks) {
  std::vector<std::byte> result(count * type_bytes(type));
  const auto of = [&]<typename T>(T) { combine_values<T>(op, ranks, result); };
  switch (type) {
    case ncclInt8:
      of(int8_t{});
      break;
    case ncclUint8:
      of(uint8_t{});
      break;
    case ncclInt32:
      of(int32_t{});
      break;
    case ncclUint32:
      of(uint32_t{});
      break;
    case ncclInt64:
      of(int64_t{});
      break;
    case ncclUint64:
      of(uint64_t{});
      break;
    case ncclFloat16:
      of(fp16{});
      break;
    case ncclFloat32:
      of(float{});
      break;
    case ncclFloat64:
      of(double{});
      break;
    case ncclBfloat16:
      of(bf16{});
      break;
  }
  return result;
}

}  // namespace hlite::emulation
