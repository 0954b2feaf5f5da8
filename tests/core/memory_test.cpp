#include "hugectr_lite/core/memory.h"

#include <algorithm>
#include <cstring>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;

TEST_CASE("memory is zeroed, aligned and at least as large as asked for") {
  constexpr size_t kMiB = size_t{1} << 20;
  for (const size_t bytes :
       {size_t{1}, size_t{63}, size_t{64}, size_t{65}, kMiB / 8 - 64, kMiB / 8 - 63, kMiB / 8,
        2 * kMiB - 4097, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB + 17}) {
    // Twice: the second block may be what the first gave back, dirty.
    for (int round = 0; round < 2; ++round) {
      const HostMemory memory(bytes, "test");
      INFO(bytes << " bytes");
      REQUIRE(memory.size() >= bytes);
      CHECK(reinterpret_cast<uintptr_t>(memory.data()) % 64 == 0);
      CHECK(std::all_of(memory.data(), memory.data() + bytes,
                        [](std::byte b) { return b == std::byte{0}; }));
      std::memset(memory.data(), 0xff, memory.size());
    }
  }
  const HostMemory none(0, "test");
  CHECK(none.size() == 0);
}

TEST_CASE("memory moves with its owner") {
  HostMemory a(100, "a");
  a.data()[7] = std::byte{9};
  std::byte* const p = a.data();
  HostMemory b(std::move(a));
  CHECK(b.data() == p);
  HostMemory c(200, "c");
  c = std::move(b);
  CHECK(c.data() == p);
  CHECK(c.data()[7] == std::byte{9});
}

TEST_CASE("memory that the system does not have is an error with name and size") {
  const std::string message =
      test::message_of<DataError>([] { HostMemory(size_t{1} << 60, "the table"); });
  test::check_contains(message, {"the table", "1152921504606846976 bytes"});
}

TEST_CASE("a tensor is a zeroed array of its shape") {
  const Tensor<float, 2> t(3, 5);
  CHECK(t.size() == 15);
  CHECK(t.view().shape() == "[3,5]");
  CHECK(std::all_of(t.data(), t.data() + 15, [](float x) { return x == 0; }));
  t.view()(2, 4) = 7;
  CHECK(t.data()[14] == 7);
  const Tensor<int32_t, 1> empty(0);
  CHECK(empty.size() == 0);
}

TEST_CASE("memory figures of system and process") {
  CHECK(available_memory_bytes() > 0);
  const int64_t before = peak_resident_bytes();
  constexpr size_t kBytes = size_t{64} << 20;
  // More than the process ever had.
  const HostMemory memory(static_cast<size_t>(before) + kBytes, "peak");
  std::memset(memory.data(), 1, memory.size());
  CHECK(peak_resident_bytes() >= before + static_cast<int64_t>(kBytes));
}
