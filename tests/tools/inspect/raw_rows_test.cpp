// Rows of raw records and of NumPy arrays, whole files and blocks of them.
#include <cmath>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"
#include "tools/inspect/rows.h"
#include "tools/io/numpy_file.h"

namespace hlite::tools {
namespace {

using test::message_of;
using Block = std::pair<int64_t, int64_t>;

TEST_CASE("blocks are all rows, or lie at even distances with the first and the last among them") {
  CHECK(sample_blocks(10, 10, 1) == std::vector<Block>{{0, 10}});
  CHECK(sample_blocks(0, 10, 1).empty());
  CHECK(sample_blocks(10, 0, 1).empty());
  CHECK(sample_blocks(100, 7, 7) == std::vector<Block>{{0, 7}});
  CHECK(sample_blocks(100, 9, 3) == std::vector<Block>{{0, 3}, {48, 3}, {97, 3}});
  for (const int64_t wanted : {65, 640, 997}) {
    const auto blocks = sample_blocks(100003, wanted, 5);
    int64_t rows = 0, end = 0;
    for (const auto& [first, count] : blocks) {
      CHECK(first >= end);
      CHECK(count >= 5);
      end = first + count;
      rows += count;
    }
    CHECK(blocks.front().first == 0);
    CHECK(end == 100003);
    CHECK(rows <= wanted);
    CHECK(rows > wanted / 2);
  }
}

// All rows of the array's items.
template <typename T>
RowChunk read_array(const std::string& type, const std::vector<T>& items, int64_t columns) {
  const test::TemporaryDirectory folder;
  const NumpyHeader header{.type = type, .shape = {std::ssize(items) / columns, columns}};
  const auto bytes = std::as_bytes(std::span(items));
  test::write_text(folder / "x.npy",
                   numpy_preamble(header) +
                       std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto rows = numpy_rows(folder / "x.npy", 100);
  RowChunk chunk, none;
  REQUIRE(rows->next(chunk));
  CHECK_FALSE(rows->next(none));
  CHECK(rows->part() == "all");
  CHECK(rows->rows_in_file() == header.shape[0]);
  return chunk;
}

TEST_CASE("arrays of numbers are columns, and integers without sign are keys") {
  const auto numbers = [](const auto& chunk) { return chunk.numbers; };
  using Numbers = std::vector<double>;
  CHECK(numbers(read_array<float>("<f4", {1.5f, -2, 0, 4}, 2)) == Numbers{1.5, -2, 0, 4});
  CHECK(numbers(read_array<double>("<f8", {0.1, -3}, 1)) == Numbers{0.1, -3});
  CHECK(numbers(read_array<int8_t>("|i1", {-1, 2, 3}, 3)) == Numbers{-1, 2, 3});
  CHECK(numbers(read_array<int16_t>("<i2", {-300, 2}, 1)) == Numbers{-300, 2});
  CHECK(numbers(read_array<int32_t>("<i4", {-70000, 2}, 1)) == Numbers{-70000, 2});
  CHECK(numbers(read_array<int64_t>("<i8", {int64_t{-1} << 40, 2}, 2)) == Numbers{-0x1p40, 2});
  using Keys = std::vector<uint64_t>;
  CHECK(read_array<uint8_t>("|u1", {255, 0}, 2).keys == Keys{255, 0});
  CHECK(read_array<uint16_t>("<u2", {65535, 1}, 1).keys == Keys{65535, 1});
  CHECK(read_array<uint32_t>("<u4", {0xffffffff, 1}, 1).keys == Keys{0xffffffff, 1});
  // Beyond the integers that doubles have.
  CHECK(read_array<uint64_t>("<u8", {(uint64_t{1} << 60) + 1, 7}, 2).keys ==
        Keys{(uint64_t{1} << 60) + 1, 7});
}

TEST_CASE("of arrays of other items only the header can be shown") {
  const test::TemporaryDirectory folder;
  for (const auto& [type, bytes] : std::vector<std::pair<std::string, int64_t>>{
           {"<f2", 2}, {">f4", 4}, {">i8", 8}, {"<c8", 8}, {"<f16", 16}, {"<i3", 3}}) {
    INFO(type);
    const NumpyHeader header{.type = type, .shape = {2}};
    test::write_text(folder / "x.npy",
                     numpy_preamble(header) + std::string(static_cast<size_t>(2 * bytes), 'x'));
    CHECK(message_of<DataError>([&] { numpy_rows(folder / "x.npy", 10); }) ==
          "a NumPy array of " + type + " items: only its header can be shown");
  }
}

}  // namespace
}  // namespace hlite::tools
