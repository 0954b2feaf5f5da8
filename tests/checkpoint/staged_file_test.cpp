#include "hugectr_lite/checkpoint/staged_file.h"

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::checkpoint {

TEST_CASE("a staged file has the bytes of its writes, whatever their sizes") {
  const test::TemporaryDirectory dir;
  constexpr size_t kStage = size_t{2} << 20;
  uint64_t round = 0;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, kStage - 1, kStage, kStage + 1,
                            2 * kStage, 2 * kStage + 5000, 5 * kStage + 12345}) {
    INFO(size);
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
    StagedFile file(dir / "f");
    for (size_t at = 0; at < size;) {
      const size_t most = round % 2 == 0 ? 3'000'000 : 70'000,
                   n = std::min(size - at, 1 + random::word(1, ++round, 0) % most);
      file.write(std::span(bytes).subspan(at, n));
      at += n;
    }
    file.close();
    const ReadFile read(dir / "f");
    REQUIRE(read.size() == static_cast<int64_t>(size));
    std::vector<std::byte> back(size);
    read.read(0, back);
    CHECK((back == bytes));
  }
}

TEST_CASE("a staged file reports what could not be written") {
  StagedFile full("/dev/full");
  const std::vector<std::byte> few(5);
  full.write(few);
  test::check_contains(test::message_of<FileError>([&] { full.close(); }),
                       {"/dev/full", "cannot write 5 bytes", "No space left on device"});
}

}  // namespace hlite::checkpoint
