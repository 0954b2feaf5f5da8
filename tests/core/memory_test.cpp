#include "hugectr_lite/core/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

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

TEST_CASE("available memory is the machine's, or what the limit of a control group leaves") {
  constexpr int64_t kMiB = 1 << 20;
  const test::TemporaryDirectory root;
  const auto write = [&](const std::string& file, const std::string& text) {
    const std::filesystem::path path(root / file);
    std::filesystem::create_directories(path.parent_path());
    test::write_text(path, text);
  };
  const auto available = [&] { return available_memory_bytes(root.path()) / kMiB; };
  write("proc/meminfo",
        "MemTotal:       16777216 kB\nHugePages_Total:       0\nMemAvailable:    8388608 kB\n");
  CHECK(available() == 8192);
  write("proc/self/cgroup", "0::/batch/job\n");
  CHECK(available() == 8192);  // groups that are not to be seen
  write("sys/fs/cgroup/batch/job/memory.max", "max\n");
  write("sys/fs/cgroup/batch/job/memory.current", "1048576\n");
  CHECK(available() == 8192);
  // A group above has a limit. Of the 3 GiB that it uses, 1 GiB are files in memory.
  write("sys/fs/cgroup/batch/memory.max", std::to_string(4096 * kMiB));
  write("sys/fs/cgroup/batch/memory.current", std::to_string(3072 * kMiB));
  write("sys/fs/cgroup/batch/memory.stat",
        fmt::format("anon {}\ninactive_file {}\nactive_file {}\n", 2048 * kMiB, 768 * kMiB,
                    256 * kMiB));
  CHECK(available() == 2048);
  write("sys/fs/cgroup/batch/job/memory.max", std::to_string(100 * kMiB));
  CHECK(available() == 99);
  // Version 1; in a container whose paths are the host's.
  write("proc/self/cgroup", "5:cpu:/docker/12\n4:memory:/docker/12\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(1024 * kMiB));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(1000 * kMiB));
  write("sys/fs/cgroup/memory/memory.stat",
        fmt::format("inactive_file 0\ntotal_inactive_file {}\n", 500 * kMiB));
  CHECK(available() == 524);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(2000 * kMiB));
  CHECK(available() == 0);
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
