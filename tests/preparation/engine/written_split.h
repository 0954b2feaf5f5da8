// What the tests of written splits share: rows, a folder that they are written to, what it should
// hold.
#pragma once

#include <xxhash.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/thread_pool.h"
#include "hugectr_lite/preparation/engine/multi_hot.h"
#include "hugectr_lite/preparation/engine/split_writer.h"
#include "tests/preparation/engine/row_fixtures.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {

inline std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename T>
T take(const std::string& bytes, size_t& at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

// The exact logarithm, rounded; the writer may be off by one unit in the last place.
inline float log1p_of(int32_t x) { return static_cast<float>(std::log1p(static_cast<double>(x))); }
inline bool close(float a, float b) { return std::abs(a - b) <= 2e-7f * std::abs(b); }

inline const std::vector<int64_t> kSizes = {1000, 3, 70000};
inline GeneratedRows make_rows(int64_t rows, bool floats, int dense = 2) {
  return {{.dense = dense, .slots = 3, .dense_is_float = floats}, rows, kSizes};
}

struct WrittenFolder {
  TemporaryDirectory folder;
  prep::WrittenSplit split;
};

inline std::unique_ptr<WrittenFolder> written(const prep::RowSource& rows,
                                              prep::OutputOptions options, int threads = 2,
                                              int64_t memory = 1 << 20,
                                              const std::string& role = "train") {
  auto result = std::make_unique<WrittenFolder>();
  options.folder = result->folder.path();
  ThreadPool pool(threads);
  result->split =
      prep::write_split(rows, role, kSizes, options,
                        {.memory_bytes = memory, .scratch = result->folder.path()}, pool);
  for (const auto& output : result->split.outputs) {
    CHECK(std::filesystem::exists(output->temporary_path()));
    CHECK_FALSE(std::filesystem::exists(output->path()));
  }
  result->split.commit();
  return result;
}

inline int64_t positives(const GeneratedRows& rows) {
  int64_t n = 0;
  for (int64_t row = 0; row < rows.rows(); ++row) n += rows.label(row);
  return n;
}

// What a row's keys are, expanded when `lists` is given.
inline std::vector<uint32_t> keys_of(const GeneratedRows& rows, int64_t row,
                                     const prep::MultiHot* lists) {
  std::vector<uint32_t> ids;
  for (int s = 0; s < 3; ++s) ids.push_back(rows.id(row, s));
  if (lists == nullptr) return ids;
  std::vector<uint32_t> keys(static_cast<size_t>(lists->keys()));
  lists->expand(ids.data(), keys.data());
  return keys;
}

}  // namespace hlite::test
