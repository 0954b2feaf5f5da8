#include "data_reader/criteo/criteo_values.h"

#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::criteo {
namespace {

using data::parquet::Text;

// Numbers of every length, and those next to the powers of 10 and 16.
template <typename T>
std::vector<T> numbers_in(int64_t least, int64_t most) {
  std::vector<T> numbers;
  const auto add = [&](int64_t x) {
    if (x >= least && x <= most) numbers.push_back(static_cast<T>(x));
  };
  for (uint64_t i = 0; i < 9001; ++i) {
    const auto x = static_cast<int64_t>(random::word(1, 2, i)) >> (i % 32);
    add(i % 3 == 0 ? -x : x);
  }
  for (const int64_t base : {10, 16})
    for (int64_t power = 1; power <= most; power *= base)
      for (const int64_t x : {power - 1, power, power + 1}) add(x), add(-x);
  add(least), add(most);
  return numbers;
}

// The values, and the characters that they have as fields, from the parser of lines.
struct WantedValues {
  std::vector<uint32_t> values;
  int64_t characters = 0;
  bool good = true;
  void add(int column, const std::string& field, const KeyRange& range) {
    uint32_t value = 0;
    good &= parse_field(column, field, value);
    values.push_back(column >= kFirstKey ? range(value) : value);
    characters += static_cast<int64_t>(field.size());
  }
};

void check_values(const ConvertedValues& done, std::vector<uint32_t> got,
                  const WantedValues& want) {
  REQUIRE(done.good == want.good);
  if (!want.good) return;
  CHECK(done.characters == want.characters);
  got.resize(want.values.size());
  CHECK(got == want.values);
}

template <typename T>
void check_integers(const std::vector<T>& numbers) {
  WantedValues want;
  for (const T x : numbers) want.add(3, std::to_string(x), KeyRange(0));
  std::vector<uint32_t> got(numbers.size() + kValuesBeyond);
  const ConvertedValues done = integers_of_numbers(numbers.data(), std::ssize(numbers), got.data());
  check_values(done, got, want);
}

template <typename T>
void check_tokens(const std::vector<T>& numbers) {
  for (const uint32_t range : {0u, 40000000u, 7u}) {
    WantedValues want;
    for (const T x : numbers)
      want.add(20, fmt::format("{:x}", static_cast<uint32_t>(x)), KeyRange(range));
    std::vector<uint32_t> got(numbers.size() + kValuesBeyond);
    const ConvertedValues done =
        tokens_of_numbers(numbers.data(), std::ssize(numbers), KeyRange(range), got.data());
    check_values(done, got, want);
  }
}

template <typename T>
bool good_token(T x) {
  uint32_t to[1 + kValuesBeyond];
  return tokens_of_numbers(&x, 1, KeyRange(0), to).good;
}

ConvertedValues convert(const std::vector<std::string>& texts, const KeyRange& range,
                        std::vector<uint32_t>& got) {
  std::vector<Text> from;
  for (const std::string& text : texts)
    from.push_back({static_cast<uint32_t>(text.size()), text.data()});
  got.assign(texts.size() + kValuesBeyond, 1234);
  return tokens_of_texts(from.data(), std::ssize(from), range, got.data());
}

}  // namespace

TEST_CASE("integers of every type have the values and lengths of their fields") {
  constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  check_integers(numbers_in<int32_t>(kMin, kMax));
  check_integers(numbers_in<uint32_t>(0, kMax));
  check_integers(numbers_in<int64_t>(kMin, kMax));
  check_integers(numbers_in<uint64_t>(0, kMax));
  check_integers(std::vector<uint32_t>{5, 2147483648});
  check_integers(std::vector<int64_t>{5, kMax + 1});
  check_integers(std::vector<int64_t>{kMin - 1});
  check_integers(std::vector<int64_t>{std::numeric_limits<int64_t>::min()});
  check_integers(std::vector<uint64_t>{std::numeric_limits<uint64_t>::max()});
  check_integers(std::vector<int32_t>());
}

TEST_CASE("tokens that are numbers have the values and lengths of their digits") {
  constexpr int64_t kMax = std::numeric_limits<uint32_t>::max();
  check_tokens(numbers_in<int32_t>(std::numeric_limits<int32_t>::min(), kMax / 2));
  check_tokens(numbers_in<uint32_t>(0, kMax));
  check_tokens(numbers_in<int64_t>(0, kMax));
  check_tokens(numbers_in<uint64_t>(0, kMax));
  CHECK(good_token(int32_t{-1}));
  CHECK(good_token(int64_t{kMax}));
  CHECK_FALSE(good_token(int64_t{kMax + 1}));
  CHECK_FALSE(good_token(int64_t{-1}));
  CHECK_FALSE(good_token(uint64_t{1} << 32));
}

TEST_CASE("labels are 0 or 1") {
  uint32_t to[4 + kValuesBeyond];
  const bool bits[] = {true, false, true};
  CHECK(labels_of_numbers(bits, 3, to).good);
  CHECK(labels_of_numbers(bits, 3, to).characters == 3);
  CHECK((to[0] == 1 && to[1] == 0 && to[2] == 1));
  CHECK(integers_of_numbers(bits, 3, to).characters == 3);
  for (const int64_t x : {int64_t{-1}, int64_t{2}, int64_t{1} << 32, (int64_t{1} << 32) + 1}) {
    const int64_t labels[] = {1, x, 0};
    CHECK(labels_of_numbers(labels, 1, to).good);
    CHECK_FALSE(labels_of_numbers(labels, 3, to).good);
  }
}

TEST_CASE("texts of tokens have the values of their fields, whatever their length") {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 1003; ++i) {
    const uint32_t word = random::word(3, 4, i) >> (i % 5 == 0 ? i % 32 : 0);
    texts.push_back(i % 7 == 0 ? fmt::format("{:X}", word) : fmt::format("{:08x}", word));
  }
  std::vector<uint32_t> got;
  for (const size_t count : {0, 1, 15, 16, 17, 31, 1003})
    for (const uint32_t range : {0u, 40000000u}) {
      const std::vector<std::string> some(texts.begin(),
                                          texts.begin() + static_cast<std::ptrdiff_t>(count));
      WantedValues want;
      for (const std::string& text : some) want.add(39, text, KeyRange(range));
      const ConvertedValues done = convert(some, KeyRange(range), got);
      CHECK_FALSE(done.any_empty);
      check_values(done, got, want);
    }
  for (const char* odd : {"g", "0x1", " 1", "1 ", "-1", "123456789", "/", ":", "@", "`", "G", "1\r",
                          "0000000000000000000000001"})
    for (const size_t at : {size_t{0}, size_t{15}, size_t{40}}) {
      std::vector<std::string> some(texts.begin(), texts.begin() + 41);
      some[at] = odd;
      CHECK_FALSE(convert(some, KeyRange(0), got).good);
    }
  const ConvertedValues done = convert({"1f", "", "2"}, KeyRange(0), got);
  CHECK((done.good && done.any_empty && done.characters == 3));
  CHECK((got[0] == 31 && got[1] == 0 && got[2] == 2));
}

}  // namespace hlite::criteo
