#include "hugectr_lite/core/checksum.h"

#include <string>

#include "tests/support/catch.h"

namespace hlite {
namespace {

FileSum sum_of(const std::string& text, size_t piece) {
  Checksum checksum;
  for (size_t at = 0; at < text.size(); at += piece)
    checksum.add(
        std::as_bytes(std::span<const char>(text).subspan(at, std::min(piece, text.size() - at))));
  return checksum.sum();
}

TEST_CASE("a checksum is XXH3's, in whatever pieces the bytes come") {
  // As `xxhsum -H3` prints them.
  CHECK(sum_of("", 1).digits() == "2d06800538d394c2");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
  const FileSum whole = sum_of(text, text.size());
  CHECK(whole.bytes == 1000);
  CHECK(whole.digits().size() == 16);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{256}, size_t{999}}) {
    CHECK(sum_of(text, piece).xxh3_64 == whole.xxh3_64);
    CHECK(sum_of(text, piece).bytes == 1000);
  }
  text[500] ^= 1;
  CHECK(sum_of(text, text.size()).xxh3_64 != whole.xxh3_64);
}

TEST_CASE("digits of a checksum have their leading zeros") {
  CHECK(FileSum{.bytes = 1, .xxh3_64 = 0xab}.digits() == "00000000000000ab");
}

}  // namespace
}  // namespace hlite
