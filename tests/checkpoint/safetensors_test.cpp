#include "hugectr_lite/checkpoint/safetensors.h"

#include <cstring>

#include "hugectr_lite/core/error.h"
#include "tests/checkpoint/tensors.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/memory_bytes.h"

using namespace hlite;
using namespace hlite::checkpoint;
using test::check_contains;
using test::MemoryBytes;
using test::message_of;
using test::Tensors;

namespace {
class StringSink final : public ByteSink {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  void write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void close() override {}
  std::string text;

 private:
  std::string name_ = "string";
};

MemoryBytes bytes_of(const std::string& text) {
  return {"f.safetensors", std::as_bytes(std::span(text))};
}

std::string written(std::span<const TensorRef> tensors, const Metadata& metadata = {}) {
  StringSink sink;
  const FileSum sum = write_safetensors(sink, tensors, metadata);
  CHECK(sum.bytes == static_cast<int64_t>(sink.text.size()));
  return sink.text;
}

std::string with_header(const std::string& header, size_t data_bytes) {
  const uint64_t n = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &n, 8);
  return text + header + std::string(data_bytes, '\1');
}

// The message that a file of this header and so many bytes of data gives.
std::string rejection(const std::string& header, size_t data_bytes) {
  const std::string text = with_header(header, data_bytes);
  const MemoryBytes file = bytes_of(text);
  const std::string message = message_of<DataError>([&] { SafetensorsReader{file}; });
  check_contains(message, {"f.safetensors: "});
  return message;
}
}  // namespace

TEST_CASE("the bytes of a file are those of the format") {
  Tensors t;
  t.add("a", {2, 1}) = {1, 2};
  t.add("b", {}) = {-0.5f};
  const std::string header = R"({"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  std::string want = with_header(padded, 12);
  const float values[] = {1, 2, -0.5f};
  std::memcpy(want.data() + want.size() - 12, values, 12);
  CHECK(written(t.refs()) == want);
  CHECK(padded.size() % 8 == 0);
}

TEST_CASE("what is written is read back, in pieces or at once") {
  Tensors t;
  t.add("big", {3, 1'000'003});  // more than one piece
  t.add("scalar", {});
  t.add("empty", {0, 5});
  t.add("vector", {17});
  t.fill(7);
  const Metadata metadata{{"format", "pt"}, {"note", "\"quoted\" \xc3\xa9"}};
  const std::string text = written(t.refs(), metadata);
  const MemoryBytes file = bytes_of(text);
  const SafetensorsReader reader(file);
  CHECK(reader.metadata() == metadata);
  REQUIRE(reader.tensors().size() == 4);
  CHECK(reader.find("none") == nullptr);
  CHECK(reader.find("big")->shape == std::vector<int64_t>{3, 1'000'003});

  for (size_t i = 0; i < t.refs().size(); ++i) {
    std::vector<float> back(t.values()[i].size());
    reader.read(t.refs()[i].name, back);
    CHECK(back == t.values()[i]);
  }
  Tensors into;
  for (const auto& ref : t.refs()) into.add(ref.name, ref.shape);
  const FileSum sum = reader.read_all(into.refs());
  CHECK(into.values() == t.values());
  StringSink again;
  const FileSum expected = write_safetensors(again, into.refs(), metadata);
  CHECK(sum.bytes == expected.bytes);
  CHECK(sum.xxh3_64 == expected.xxh3_64);
  CHECK(again.text == text);
}

TEST_CASE("tensors accessed by functions give and take the same bytes") {
  Tensors t;
  t.add("x", {5'000'011});
  t.fill(3);
  TensorRef remote{"x", {5'000'011}};
  std::vector<float> store = t.values()[0];
  remote.get = [&](int64_t first, std::span<float> out) {
    std::copy_n(store.begin() + first, out.size(), out.begin());
  };
  remote.put = [&](int64_t first, std::span<const float> in) {
    std::copy(in.begin(), in.end(), store.begin() + first);
  };
  const std::string text = written(t.refs());
  CHECK(written(std::span(&remote, 1)) == text);
  std::fill(store.begin(), store.end(), 0.f);
  const MemoryBytes file = bytes_of(text);
  SafetensorsReader(file).read_all(std::span(&remote, 1));
  CHECK(store == t.values()[0]);
}

TEST_CASE("keys are uint32 tensors, and no float may take their place") {
  std::vector<uint32_t> keys = {0, 1, 0x7f800001u, 0xfffffffeu};  // one is a signalling NaN's bits
  TensorRef ref{.name = "keys", .shape = {4}};
  ref.dtype = DType::kU32;
  ref.get = [&](int64_t first, std::span<float> out) {
    std::memcpy(out.data(), keys.data() + first, out.size_bytes());
  };
  const std::string text = written(std::span(&ref, 1));
  CHECK(text.find(R"("dtype":"U32")") != std::string::npos);
  const MemoryBytes file = bytes_of(text);
  const SafetensorsReader reader(file);
  CHECK(reader.read_words("keys") == keys);

  std::vector<uint32_t> back(4);
  ref.put = [&](int64_t first, std::span<const float> in) {
    std::memcpy(back.data() + first, in.data(), in.size_bytes());
  };
  reader.read_all(std::span(&ref, 1));
  CHECK(back == keys);

  std::vector<float> out(4);
  check_contains(message_of<DataError>([&] { reader.read("keys", out); }),
                 {"tensor keys", "expected dtype F32", "found U32"});
  ref.dtype = DType::kF32;
  check_contains(message_of<DataError>([&] { reader.read_all(std::span(&ref, 1)); }),
                 {"keys: expected dtype F32, found U32"});
}

TEST_CASE("tensors of 16 bits take half the bytes, and floats of any size read each other") {
  const std::vector<float> values = {0, -1.5f, 65504, 0x1p-14f, 0.375f};
  for (const auto& [dtype, name] : {std::pair{DType::kBf16, "BF16"}, {DType::kF16, "F16"}}) {
    INFO(name);
    std::vector<float> back(values.size());
    TensorRef narrow{.name = "x", .shape = {5}};
    narrow.dtype = dtype;
    narrow.get = [&](int64_t first, std::span<float> out) {
      std::copy_n(values.begin() + first, out.size(), out.begin());
    };
    narrow.put = [&](int64_t first, std::span<const float> in) {
      std::copy(in.begin(), in.end(), back.begin() + first);
    };
    const std::string text = written(std::span(&narrow, 1));
    CHECK(text.find(std::string(R"("dtype":")") + name) != std::string::npos);
    const MemoryBytes file = bytes_of(text);
    const SafetensorsReader reader(file);
    CHECK(reader.tensors()[0].end - reader.tensors()[0].begin == 10);
    std::vector<float> want = values;
    if (dtype == DType::kBf16) want[2] = 65536;  // of 8 digits
    reader.read_all(std::span(&narrow, 1));
    CHECK(back == want);
    reader.read("x", back);
    CHECK(back == want);
    std::vector<float> wide_values(values.size());
    TensorRef wide{"x", {5}, wide_values.data()};
    const FileSum sum = reader.read_all(std::span(&wide, 1));
    CHECK(wide_values == want);
    CHECK(sum.bytes == std::ssize(text));
    const std::string floats = written(std::span(&wide, 1));
    const MemoryBytes wide_file = bytes_of(floats);
    std::fill(back.begin(), back.end(), 0.0f);
    SafetensorsReader(wide_file).read_all(std::span(&narrow, 1));
    CHECK(back == want);
  }
}

TEST_CASE("tensors of 16 bits come last, so that floats are aligned") {
  std::vector<float> values = {1, 2, 3};
  TensorRef narrow{"x", {3}}, wide{"y", {3}, values.data()};
  narrow.dtype = DType::kBf16;
  narrow.get = [&](int64_t first, std::span<float> out) {
    std::copy_n(values.begin() + first, out.size(), out.begin());
  };
  const std::string text = written(std::vector<TensorRef>{narrow, wide});
  const MemoryBytes file = bytes_of(text);
  const SafetensorsReader reader(file);
  CHECK(reader.tensors()[0].name == "y");
  std::vector<float> back(3);
  for (const char* name : {"x", "y"}) {
    reader.read(name, back);
    CHECK(back == values);
  }
}

TEST_CASE("a file without tensors is a file") {
  const std::string text = written({});
  CHECK(text == with_header("{}      ", 0));
  const MemoryBytes file = bytes_of(text);
  const SafetensorsReader reader(file);
  CHECK(reader.tensors().empty());
  CHECK(reader.read_all({}).bytes == 16);
}

TEST_CASE("names that cannot be written are errors") {
  Tensors twice;
  twice.add("a", {1});
  twice.add("a", {1});
  StringSink sink;
  check_contains(message_of<Error>([&] { write_safetensors(sink, twice.refs()); }), {"a is taken"});
  Tensors reserved;
  reserved.add("__metadata__", {1});
  check_contains(message_of<Error>([&] { write_safetensors(sink, reserved.refs()); }),
                 {"__metadata__"});
  Tensors binary;
  binary.add("\xff", {1});
  check_contains(message_of<Error>([&] { write_safetensors(sink, binary.refs()); }), {"UTF-8"});
}

TEST_CASE("tensors in the file may lie in any order") {
  const std::string text = with_header(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                       R"("a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}})",
                                       8);
  const MemoryBytes file = bytes_of(text);
  const SafetensorsReader reader(file);
  CHECK(reader.tensors()[0].name == "a");
  CHECK(reader.tensors()[1].name == "b");
}

TEST_CASE("what departs from the format is an error that says what") {
  const auto one = [](const std::string& shape, const std::string& offsets,
                      const std::string& dtype = "F32") {
    return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  check_contains(rejection(one("[2]", "[0,8]"), 7), {"expected 8 bytes", "t", "found 7"});
  check_contains(rejection(one("[2]", "[0,8]"), 9), {"expected 8 bytes", "found 9"});
  check_contains(rejection(one("[2]", "[0,4]"), 4), {"tensor t", "8 bytes for shape [2]", "[0,4]"});
  check_contains(rejection(one("[2]", "[8,0]"), 8), {"tensor t", "[8,0]"});
  check_contains(rejection(one("[1]", "[4,8]"), 8), {"tensor t", "begin at 0", "found 4", "gap"});
  check_contains(rejection(one("[1]", "[0,8]", "F64"), 8),
                 {"t.dtype", "\"F32\", \"U32\", \"BF16\", \"F16\"", "found \"F64\""});
  check_contains(rejection(one("[1]", "[0,4]", "F16"), 4),
                 {"expected 2 bytes for shape [1], found data_offsets [0,4]"});
  check_contains(rejection(one("[-1]", "[0,4]"), 4), {"t.shape[0]", "an integer >= 0", "found -1"});
  check_contains(rejection(one("[1.5]", "[0,4]"), 4), {"t.shape[0]", "found 1.5"});
  check_contains(rejection(one("7", "[0,4]"), 4), {"t.shape", "a list of integers"});
  check_contains(rejection(one("[1]", "[0,4,5]"), 4), {"t.data_offsets", "a list of 2"});
  check_contains(rejection(one("[1]", "[0,1e3]"), 4), {"tensor t", "data_offsets"});
  // 2^32 * 2^32 wraps to 0; 2^62 elements are 2^64 bytes, which wrap too.
  check_contains(rejection(one("[4294967296,4294967296]", "[0,0]"), 0), {"tensor t", "2^61"});
  check_contains(rejection(one("[4611686018427387904]", "[0,0]"), 0), {"tensor t", "2^61"});
  check_contains(rejection(one("[18446744073709551615]", "[0,0]"), 0), {"64 bits"});
  check_contains(rejection(R"({"t":7})", 0), {"header:1: t: expected an object"});
  check_contains(rejection(R"({"t":{"dtype":"F32","shape":[1]}})", 4),
                 {"t: missing key \"data_offsets\""});
  check_contains(rejection(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
                 {"t.x: unknown key"});
  check_contains(rejection(R"({"t":{"dtype":"F32","dtype":"F32"}})", 4),
                 {"t.dtype: expected each key once"});
  check_contains(rejection("[]", 0), {"header:1: expected an object, found an empty list"});
  check_contains(rejection("{\"t\":", 0), {"header:1:6: expected a value"});
  check_contains(rejection("", 0), {"header:1:1: expected a value"});
  check_contains(rejection(R"({"__metadata__":{"a":1}})", 0), {"__metadata__", "string"});
  check_contains(rejection(R"({"__metadata__":3})", 0), {"__metadata__", "object"});
  check_contains(rejection(std::string(100'000, '['), 0), {"64 nested levels"});

  const std::string pair = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                           R"("u":{"dtype":"F32","shape":[1],"data_offsets":)";
  check_contains(rejection(pair + "[4,8]}}", 8), {"tensor u", "begin at 8", "overlap"});
  check_contains(rejection(pair + "[12,16]}}", 16), {"tensor u", "begin at 8", "gap"});
  std::string same_name = pair + "[8,12]}}";
  same_name.replace(same_name.find("\"u\""), 3, "\"t\"");
  check_contains(rejection(same_name, 12), {"t: expected each key once"});
}

TEST_CASE("a file of another format is named as such") {
  const std::string text = "age,workclass,income\n39,State-gov,0\n";
  const MemoryBytes file = bytes_of(text);
  check_contains(message_of<DataError>([&] { SafetensorsReader{file}; }),
                 {"f.safetensors: expected a safetensors file", "another format"});
}

TEST_CASE("a header length that the file cannot hold is an error") {
  for (const uint64_t n : {uint64_t{9}, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
    std::string text(16, ' ');
    std::memcpy(text.data(), &n, 8);
    const MemoryBytes file = bytes_of(text);
    check_contains(message_of<DataError>([&] { SafetensorsReader{file}; }),
                   {"f.safetensors: expected a safetensors file", "length of its header",
                    "at most 8", "found " + std::to_string(n)});
  }
}

TEST_CASE("every truncation is an error") {
  Tensors t;
  t.add("a", {3});
  t.add("b", {2, 2});
  const std::string text = written(t.refs());
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string cut = text.substr(0, n);
    const MemoryBytes file = bytes_of(cut);
    check_contains(message_of<DataError>([&] { SafetensorsReader{file}; }), {"f.safetensors"});
  }
}

TEST_CASE("missing, surplus and differently shaped tensors are listed together") {
  Tensors t, want;
  t.add("same", {2});
  t.add("shape", {2, 3});
  t.add("surplus", {1});
  const std::string text = written(t.refs());
  const MemoryBytes file = bytes_of(text);
  want.add("same", {2}) = {5, 5};
  want.add("shape", {3, 2});
  want.add("missing", {4});
  const SafetensorsReader reader(file);
  check_contains(
      message_of<DataError>([&] { reader.read_all(want.refs()); }),
      {"f.safetensors", "shape: expected [3,2], found [2,3]",
       "surplus: expected no such tensor, found [1]", "missing: expected [4], found none"});
  CHECK(want.values()[0] == std::vector<float>{5, 5});  // nothing was read

  std::vector<float> out(3);
  check_contains(message_of<DataError>([&] { reader.read("none", out); }), {"tensor none"});
  check_contains(message_of<DataError>([&] { reader.read("same", out); }),
                 {"tensor same", "expected 3", "found 2"});
}
