#include "data_reader/norm_format.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/memory_bytes.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::data;
using test::check_contains;
using test::MemoryBytes;
using test::message_of;

namespace {
std::vector<std::byte> bytes_with(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

std::vector<std::byte> header_bytes(const NormHeader& header, size_t trailing = 0) {
  std::vector<std::byte> bytes;
  append_norm_header(header, bytes);
  bytes.resize(bytes.size() + trailing);
  return bytes;
}

NormHeader read_bytes(const std::vector<std::byte>& bytes) {
  return read_norm_header(MemoryBytes("f.norm", bytes));
}

// A header of the given eight numbers, framed or not, with a right checksum.
std::vector<std::byte> numbers(bool framed, const std::vector<int64_t>& values, size_t trailing) {
  std::vector<std::byte> bytes(64);
  std::memcpy(bytes.data(), values.data(), 64);
  if (framed) {
    int sum = 0;
    for (const std::byte b : bytes) sum += static_cast<int>(b);
    bytes.insert(bytes.begin(), {std::byte{64}, std::byte{0}, std::byte{0}, std::byte{0}});
    bytes.push_back(static_cast<std::byte>(sum % 256));
  }
  bytes.resize(bytes.size() + trailing);
  return bytes;
}
}  // namespace

TEST_CASE("a Norm sample has the bytes of the format") {
  const std::vector<float> label{1}, dense{-2, 0.5f};
  const std::vector<int32_t> nnz{2, 0, 1};
  const std::vector<uint32_t> keys{7, 0x01020304, 0xff};
  const std::vector<int> payload = {0, 0, 0x80, 0x3f,                    // 1
                                    0, 0, 0,    0xc0, 0,    0, 0, 0x3f,  // -2, 0.5
                                    2, 0, 0,    0,    7,    0, 0, 0,    4, 3, 2, 1, 0, 0, 0, 0,  //
                                    1, 0, 0,    0,    0xff, 0, 0, 0};
  std::vector<std::byte> out{std::byte{9}};  // appended to
  append_norm_sample(false, label, dense, nnz, keys, out);
  std::vector<int> expected = payload;
  expected.insert(expected.begin(), 9);
  CHECK(out == bytes_with(expected));

  out.clear();
  append_norm_sample(true, label, dense, nnz, keys, out);
  expected = payload;
  int sum = 0;
  for (const int b : payload) sum += b;
  expected.insert(expected.begin(), {static_cast<int>(payload.size()), 0, 0, 0});
  expected.push_back(sum % 256);
  CHECK(out == bytes_with(expected));

  out.clear();
  append_norm_sample(true, {}, {}, {}, {}, out);
  CHECK(out == bytes_with({0, 0, 0, 0, 0}));
}

TEST_CASE("a Norm header is written as it is read") {
  for (const bool sum : {false, true}) {
    const NormHeader written{sum, 3, 1, 13, 26};
    const auto bytes = header_bytes(written, 3 * static_cast<size_t>(written.min_sample_bytes()));
    CHECK(written.framed_bytes() == (sum ? 69 : 64));
    CHECK(written.min_sample_bytes() == 160 + (sum ? 5 : 0));
    CHECK(bytes == numbers(sum, {sum ? 1 : 0, 3, 1, 13, 26, 0, 0, 0}, sum ? 3 * 165 : 3 * 160));
    const NormHeader read = read_bytes(bytes);
    CHECK(read.sum == sum);
    CHECK(read.records == 3);
    CHECK(read.label_dim == 1);
    CHECK(read.dense_dim == 13);
    CHECK(read.slots == 26);
  }
  CHECK(read_bytes(header_bytes({false, 0, 1, 0, 0})).records == 0);
}

TEST_CASE("a broken Norm header is an error that says how") {
  const auto broken = [](const std::vector<std::byte>& bytes) {
    return message_of<DataError>([&] { read_bytes(bytes); });
  };
  CHECK(broken({}) == "f.norm: expected a Norm header of 64 bytes, found a file of 0 bytes");
  std::vector<std::byte> bytes = header_bytes({false, 0, 1, 2, 3});
  bytes.resize(63);
  check_contains(broken(bytes), {"header of 64 bytes", "file of 63 bytes"});
  bytes = header_bytes({true, 0, 1, 2, 3});
  bytes.resize(68);
  check_contains(broken(bytes), {"header of 69 bytes", "file of 68 bytes"});
  bytes = header_bytes({true, 0, 1, 2, 3});
  bytes[68] ^= std::byte{1};
  CHECK(broken(bytes) == "f.norm: header: expected the checksum 7 (the sum of its bytes), found 6");
  // A raw file, or text.
  check_contains(broken(numbers(false, {1, 0, 1, 2, 3, 0, 0, 0}, 9)),
                 {"f.norm: expected a Norm file, which begins with 64", "or 0", "found 1"});
  check_contains(broken(numbers(true, {0, 0, 1, 2, 3, 0, 0, 0}, 9)),
                 {"header: expected error_check 1 with framing, found 0"});
  check_contains(broken(numbers(false, {int64_t{1} << 32, 0, 1, 2, 3, 0, 0, 0}, 9)),
                 {"expected error_check 0 without framing, found 4294967296"});
  check_contains(broken(numbers(false, {0, 0, -1, 2, 3, 0, 0, 0}, 9)),
                 {"label_dim in [0, 16777216], found -1"});
  check_contains(broken(numbers(false, {0, 0, 1, int64_t{1} << 40, 3, 0, 0, 0}, 9)),
                 {"dense_dim in", "found 1099511627776"});
  check_contains(broken(numbers(true, {1, 0, 1, 2, -3, 0, 0, 0}, 9)), {"slot_num in", "found -3"});
  CHECK(broken(numbers(false, {0, 4, 1, 2, 3, 0, 0, 0}, 95)) ==
        "f.norm: header: expected number_of_records in [0, 3], as samples (1 labels, 2 dense, 3 "
        "slots) take 24 bytes at least and 95 follow the header, found 4");
  check_contains(broken(numbers(true, {1, -4, 1, 2, 3, 0, 0, 0}, 95)), {"[0, 3]", "found -4"});
  check_contains(broken(numbers(false, {0, 5, 0, 0, 0, 0, 0, 0}, 95)), {"[0, 0]", "found 5"});
}

TEST_CASE("a file list is read, its paths resolved") {
  namespace fs = std::filesystem;
  const test::TemporaryDirectory folder;
  const auto list = [&](const std::string& text) {
    std::ofstream(folder / "list.txt", std::ios::binary) << text;
    return read_file_list(folder / "list.txt");
  };
  const std::vector<std::string> both{folder / "a.norm", folder / "sub/b.norm"};
  CHECK(list("2\na.norm\nsub/b.norm\n") == both);
  CHECK(list("2\r\n  a.norm\t\r\n\r\n./sub/b.norm") == both);
  CHECK(list("1\n/x/y.norm\n") == std::vector<std::string>{"/x/y.norm"});
  CHECK(list("1\nwith blanks.norm\n")[0] == folder / "with blanks.norm");
  // A file that is not in the list's folder may be in the working directory.
  const fs::path before = fs::current_path();
  fs::create_directory(folder / "work");
  std::ofstream(folder / "work/c.norm") << "x";
  fs::current_path(folder / "work");
  const auto found = list("2\nc.norm\nd.norm\n");
  fs::current_path(before);
  CHECK(found == std::vector<std::string>{"c.norm", folder / "d.norm"});

  const auto broken = [&](const std::string& text) {
    return message_of<DataError>([&] { list(text); });
  };
  const std::string name = folder / "list.txt";
  CHECK(broken("") == name + ":1: expected the number of files, found an empty list");
  check_contains(broken("\n\na.norm\n"), {name + ":3: expected the number of files", "\"a.norm\""});
  check_contains(broken("2x\na\n"), {":1: expected the number of files", "\"2x\""});
  check_contains(broken("0\n"), {":1: expected the number of files", "(>= 1)", "\"0\""});
  check_contains(broken("-1\na\n"), {"\"-1\""});
  check_contains(broken("99999999999999999999\na\n"), {"\"99999999999999999999\""});
  CHECK(broken("\n3\na\nb\n") == name + ":2: expected 3 paths below, found 2");
  CHECK(broken("1\na\nb\n") == name + ":1: expected 1 paths below, found 2");
  check_contains(message_of<FileError>([&] { read_file_list(folder / "none.txt"); }),
                 {"none.txt: cannot open"});
}
