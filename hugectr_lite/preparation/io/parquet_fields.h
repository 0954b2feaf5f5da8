// The values of a column of a Parquet file as fields of lines (parquet_text.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/preparation/io/parquet_rows.h"
#include "hugectr_lite/preparation/io/text_form.h"

namespace hlite::prep {

// A growing piece of text. What is written may be up to kShort bytes longer than what is added.
class LineBuffer {
 public:
  static constexpr size_t kShort = 32;
  explicit LineBuffer(size_t capacity) : bytes_(capacity + kShort) {}
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::string_view text() const { return {bytes_.data(), size_}; }
  void clear() { size_ = 0; }
  void add(char c) { *reserve(1) = c, ++size_; }
  void add(std::string_view text) {
    std::copy(text.begin(), text.end(), reserve(text.size()));
    size_ += text.size();
  }
  // Returns where the next bytes go, of which `most` and kShort more may be written; added() says
  // how many count.
  char* reserve(size_t most) {
    if (size_ + most + kShort > bytes_.size()) bytes_.resize(2 * (size_ + most + kShort));
    return bytes_.data() + size_;
  }
  void added(size_t bytes) { size_ += bytes; }

 private:
  std::vector<char> bytes_;
  size_t size_ = 0;
};

// Adds a text as a field, in quotes if it needs them. False when no field can hold it.
bool add_field(std::string_view text, const TextForm& form, LineBuffer& out);

// The values of one column of a row group as fields, one after the other.
class ParquetFields {
 public:
  // `form` must outlive this.
  ParquetFields(const data::parquet::ParquetFile& file, int group, int column, const TextForm& form,
                bool hexadecimal);
  // Adds the next row's field. Throws DataError "<file>: row group 2, column "C3", row 7: ...".
  void add_to(LineBuffer& out);

 private:
  using Add = void (ParquetFields::*)(LineBuffer& out);
  // A text of a dictionary, ready to be copied as a whole.
  struct Ready {
    char text[15];
    uint8_t size;  // kSlow: it is longer, needs quotes, or is no field at all
  };
  static constexpr uint8_t kSlow = 255;

  [[nodiscard]] static Add function_for(const data::parquet::ParquetColumn& column,
                                        bool hexadecimal);
  void refill();
  void make_ready();
  template <typename T>
  void add_number(LineBuffer& out);
  template <typename T>
  void add_hexadecimal(LineBuffer& out);
  void add_text(LineBuffer& out);
  void add_plain_text(const data::parquet::Text& text, LineBuffer& out);

  ParquetRows rows_;
  const int16_t max_defined_;
  const TextForm& form_;
  const Add add_;
  data::parquet::Piece piece_{};
  std::vector<Ready> ready_;       // of the dictionary
  int64_t level_ = 0, value_ = 0;  // of the piece
  int64_t row_ = 0;                // of the group
};

}  // namespace hlite::prep
