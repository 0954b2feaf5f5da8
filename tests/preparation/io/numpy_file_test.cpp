#include "hugectr_lite/preparation/io/numpy_file.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/memory_bytes.h"

namespace hlite::prep {
namespace {

using test::MemoryBytes;

using test::check_contains;
using test::message_of;

NumpyHeader read(const std::string& bytes) {
  return read_numpy_header(
      MemoryBytes("x.npy", std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

std::string with_header(const std::string& text, const std::string& data = "") {
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  return bytes + text + data;
}

TEST_CASE("the preamble is the one that numpy.save writes") {
  // numpy.save of numpy.zeros((3, 2), "float32"), up to the data.
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }";
  const std::string expected = std::string("\x93NUMPY\x01\0\x76\0", 10) + dictionary +
                               std::string(117 - dictionary.size(), ' ') + "\n";
  CHECK(numpy_preamble({.type = "<f4", .shape = {3, 2}}) == expected);
  CHECK(expected.size() == 128);
}

TEST_CASE("headers come back as they were written, data aligned to 64 bytes") {
  for (const auto& shape : std::vector<std::vector<int64_t>>{
           {}, {0}, {7}, {3, 2}, {0, 13}, {2, 0}, {2, 3, 5}, {4195197692, 0}})
    for (const char* type : {"<i4", "<u4", "<f4", "<i8", "|u1", ">f8"}) {
      const NumpyHeader header{.type = type, .shape = shape};
      std::string bytes = numpy_preamble(header);
      CHECK(bytes.size() % 64 == 0);
      int64_t size = header.item_bytes();
      for (const int64_t n : shape) size *= n;
      bytes += std::string(static_cast<size_t>(size), 'x');
      const NumpyHeader got = read(bytes);
      CHECK(got.type == type);
      CHECK(got.shape == shape);
      CHECK_FALSE(got.fortran_order);
      CHECK(got.data_offset % 64 == 0);
      check_contains(message_of<DataError>([&] { read(bytes + "y"); }),
                     {"x.npy: expected", "bytes of data"});
    }
}

TEST_CASE("other writers' headers are read") {
  const NumpyHeader a =
      read(with_header("{\"shape\":(2,),\"fortran_order\":True,\"descr\":\"<i4\"}", "12345678"));
  CHECK(a.shape == std::vector<int64_t>{2});
  CHECK(a.fortran_order);
  CHECK(a.data_offset == 59);
  const std::string text = "{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n";
  std::string version2("\x93NUMPY\x02\0", 8);
  version2 += static_cast<char>(text.size());
  version2 += std::string(3, '\0') + text + "1234";
  CHECK(read(version2).shape.empty());
}

TEST_CASE("what is no array of numbers is an error that says why") {
  const auto error = [](const std::string& bytes) {
    return message_of<DataError>([&] { read(bytes); });
  };
  const auto header_error = [&](const std::string& text) { return error(with_header(text)); };
  check_contains(error(""), {"x.npy: expected a .npy file"});
  check_contains(error("\x93NUMPX\x01"), {"expected a .npy file"});
  check_contains(error("\x93NUMPY"), {"the file's end at byte 6"});
  check_contains(error(std::string("\x93NUMPY\x04\0\x01\0", 10)), {"version 1, 2 or 3", "found 4"});
  check_contains(error(std::string("\x93NUMPY\x01\0\xff\xff{", 11)), {"header of at most 1 bytes"});
  for (const char* text : {"hello", "{'descr': '<i4', 'fortran_order': False, 'shape': (1}",
                           "{'descr': '<i4', 'fortran_order': No, 'shape': ()}",
                           "{'descr': '<i4', 'shape': ()}", "{'descr': '<i4", "{'descr': '<i4'} x",
                           "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': ()}"})
    check_contains(header_error(text), {"x.npy: expected a .npy header of descr", "found \""});
  for (const char* shape : {"(-1,)", "(4611686018427387904, 8)"})
    check_contains(header_error(std::string("{'descr': '<i4', 'fortran_order': False, 'shape': ") +
                                shape + "}"),
                   {"below 2^63"});
  check_contains(header_error("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
                 {"items of type \"|O\""});
}

}  // namespace
}  // namespace hlite::prep
