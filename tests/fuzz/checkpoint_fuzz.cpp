// Feeds arbitrary bytes to what reads checkpoints: as a safetensors file, and as manifest.json.
// Whatever they are, they are read, or refused by a DataError.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/safetensors.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "tests/support/memory_bytes.h"

namespace {
using namespace hlite;
using hlite::test::MemoryBytes;
using namespace hlite::checkpoint;

void require(bool condition) {
  if (!condition) std::abort();
}

class CountingSink final : public ByteSink {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  void write(std::span<const std::byte>) override {}
  void close() override {}

 private:
  std::string name_ = "sink";
};

void read_as_safetensors(std::span<const std::byte> bytes) {
  const MemoryBytes file("fuzz.safetensors", bytes);
  const SafetensorsReader reader(file);
  // What was accepted fits into the file, without overlap or gap, and can be read and written.
  int64_t data = 0;
  std::vector<std::vector<float>> values;
  std::vector<TensorRef> refs;
  for (const auto& e : reader.tensors()) {
    require(e.begin >= 0 && e.begin <= e.end && e.end <= file.size() &&
            (e.end - e.begin) % dtype_bytes(e.dtype) == 0);
    data += e.end - e.begin;
    auto& v = values.emplace_back(static_cast<size_t>(e.end - e.begin) /
                                  static_cast<size_t>(dtype_bytes(e.dtype)));
    refs.push_back({e.name, e.shape, v.data()});
    require(refs.back().size() == static_cast<int64_t>(v.size()));
    reader.read(e.name, v);
  }
  require(data <= file.size());
  require(reader.read_all(refs).bytes == file.size());
  CountingSink sink;
  require(write_safetensors(sink, refs, reader.metadata()).bytes >= data);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    read_as_safetensors(bytes);
  } catch (const DataError&) {
  }
  try {
    parse_manifest(std::string(reinterpret_cast<const char*>(data), size), "manifest.json");
  } catch (const DataError&) {
  }
  // Most inputs fail at the header's length: give the rest of them one that fits.
  if (size > 1) {
    const auto header = std::min<uint64_t>(data[0] * uint64_t{4}, size - 1);
    std::vector<std::byte> framed(8 + size - 1);
    for (size_t i = 0; i < 8; ++i) framed[i] = static_cast<std::byte>(header >> (8 * i));
    std::copy(bytes.begin() + 1, bytes.end(), framed.begin() + 8);
    try {
      read_as_safetensors(framed);
    } catch (const DataError&) {
    }
  }
  return 0;
}
