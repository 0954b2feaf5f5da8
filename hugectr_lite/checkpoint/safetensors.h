// The safetensors format, of float32, bfloat16, float16 and (for keys) uint32:
//
//   file   := u64 n (little-endian), header (n bytes), data
//   header := JSON object, padded with spaces so that data starts at a multiple of 8:
//             {"__metadata__": {string: string, ...},                          (optional)
//              name: {"dtype": "F32", "BF16", "F16" or "U32", "shape": [...],
//                     "data_offsets": [begin, end]}, ...}
//   data   := the tensors, row-major, little-endian; begin and end count from the start of data
//             and cover it without overlap or gap
//
// Tables take gigabytes, so tensors go from and to their place in pieces, never through a copy of
// the file.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hugectr_lite/config/json_node.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/tensor_ref.h"

namespace hlite::checkpoint {

using Metadata = std::map<std::string, std::string>;

// Writes a whole file, tensors in the given order but for those of 16 bits, which come last. Does
// not close `out`. Throws Error when two tensors share a name or one is called "__metadata__".
FileSum write_safetensors(ByteSink& out, std::span<const TensorRef> tensors,
                          const Metadata& metadata = {});

// A file whose header has been read and checked against the format above and the file's size; any
// departure is a DataError with file, tensor, expected and found.
class SafetensorsReader {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    int64_t begin = 0, end = 0;  // bytes, from the start of the file
  };

  // `file` is borrowed.
  explicit SafetensorsReader(const ByteSource& file);

  // Tensors in the order of their bytes.
  [[nodiscard]] const std::vector<Entry>& tensors() const { return entries_; }
  // Null when there is none of that name.
  [[nodiscard]] const Entry* find(const std::string& name) const;
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::string& name() const { return file_.name(); }

  // Reads one tensor of floats, those of 16 bits widened; `out` has as many elements as it.
  // DataError when there is none of that name.
  void read(const std::string& name, std::span<float> out) const;
  // A uint32 tensor. DataError when there is none of that name and type.
  [[nodiscard]] std::vector<uint32_t> read_words(const std::string& name) const;
  // Elements [first, first + out.size()) of an entry, those of 16 bits widened, uint32 as their
  // bits.
  void read_range(const Entry& entry, int64_t first, std::span<float> out) const {
    read_elements(entry, first, out);
  }
  // An entry, or all of them, to write it elsewhere. This must outlive them.
  [[nodiscard]] TensorRef ref(const Entry& entry) const;
  [[nodiscard]] std::vector<TensorRef> refs() const;
  // Reads every tensor of the file to its place in `into`, and sums the whole file on the way.
  // Names and shapes must agree exactly: DataError listing what is missing, surplus or of another
  // shape, before anything is read. Floats of another type are converted, to nearest.
  FileSum read_all(std::span<const TensorRef> into) const;
  // The same but for tensors in `there`, which are checked and not read; there is no sum.
  void read_others(std::span<const TensorRef> into, const std::set<std::string>& there) const;

 private:
  [[nodiscard]] const Entry& entry_of(const std::string& name, DType dtype) const;
  // Elements [first, first + out.size()) of a tensor, as TensorRef has them. `sum`, unless null,
  // gets the bytes of the file.
  void read_elements(const Entry& entry, int64_t first, std::span<float> out,
                     Checksum* sum = nullptr) const;
  using Places = std::map<std::string, const TensorRef*>;
  [[nodiscard]] Places places_of(std::span<const TensorRef> into) const;
  void read_tensor(const Entry& entry, const TensorRef& into, Checksum* sum) const;
  [[nodiscard]] Entry parse_entry(const std::string& name, const config::JsonNode& value) const;
  void parse_header(const std::string& text);
  void check_ranges();

  const ByteSource& file_;
  int64_t data_begin_ = 0;
  std::vector<Entry> entries_;
  Metadata metadata_;
};

}  // namespace hlite::checkpoint
