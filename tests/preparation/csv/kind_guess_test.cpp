// The table of kind_guess.h.
#include "hugectr_lite/preparation/csv/kind_guess.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {
namespace {

ColumnFacts facts_of(int rows, const std::function<std::string(uint64_t)>& field) {
  ColumnFacts facts;
  for (int i = 0; i < rows; ++i) facts.add(field(static_cast<uint64_t>(i)), i + 1);
  return facts;
}

// Sum of 12 uniform draws: nearly a normal one, with mean 6 and deviation 1.
double bell(uint64_t i) {
  double sum = 0;
  for (uint64_t j = 0; j < 12; ++j) sum += random::word(1, j, i) / 4294967296.0;
  return sum;
}

ColumnKind kind(const ColumnFacts& facts, const std::string& name = "x") {
  return guess_kind(facts, name, true, name).kind;
}

uint32_t draw(uint64_t i, uint32_t below) { return random::word(2, 0, i) % below; }

}  // namespace

TEST_CASE("names tell ids from quantities where values do not") {
  const ColumnFacts even =
      facts_of(2000, [](uint64_t i) { return fmt::format("{}", draw(i, 1000)); });
  for (const char* name :
       {"id", "user_id", "userId", "userID", "User Id", "item.id", "zip", "country_code"})
    CHECK(kind(even, name) == ColumnKind::kCategory);
  for (const char* name :
       {"age", "hours-per-week", "basePrice", "PRICE", "n_clicks", "num_items", "days since"})
    CHECK(kind(even, name) == ColumnKind::kNumber);
  for (const char* name : {"user", "item", "x", "", "userid", "paid", "n", "agent", "7"})
    CHECK(kind(even, name) == ColumnKind::kUnclear);
  CHECK(guess_kind(even, "a b", true, "'a b'").note.find("--categorical 'a b' if") !=
        std::string::npos);
}

TEST_CASE("values tell quantities from ids where names do not") {
  using Field = std::function<std::string(uint64_t)>;
  const auto kind_of = [](const Field& field, int rows = 2000) {
    return kind(facts_of(rows, field));
  };
  // Numbers.
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}.5", draw(i, 1000)); }) ==
        ColumnKind::kNumber);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", draw(i, 1000) - 3.0); }) ==
        ColumnKind::kNumber);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", 17 + draw(i, 70)); }) ==
        ColumnKind::kNumber);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", std::round(1e5 + 1e4 * bell(i))); }) ==
        ColumnKind::kNumber);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", std::round(std::exp(bell(i)))); }) ==
        ColumnKind::kNumber);
  // Categories.
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", draw(i, 20)); }) ==
        ColumnKind::kCategory);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{:04}", draw(i, 1000)); }) ==
        ColumnKind::kCategory);
  CHECK(kind_of([](uint64_t i) { return fmt::format("u{}", draw(i, 1000)); }) ==
        ColumnKind::kCategory);
  // Left out.
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", i); }) == ColumnKind::kLeftOut);
  CHECK(kind_of([](uint64_t i) { return fmt::format("n{}", i); }) == ColumnKind::kLeftOut);
  // Questions: few ids in order, many of them, and those of a heavy head.
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", 1 + draw(i, 60)); }) ==
        ColumnKind::kUnclear);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", 100 + draw(i, 60)); }) ==
        ColumnKind::kUnclear);
  CHECK(kind_of([](uint64_t i) { return fmt::format("{}", draw(i, 1'000'000)); }) ==
        ColumnKind::kUnclear);
  CHECK(kind_of([](uint64_t i) {
          return fmt::format("{}", static_cast<int>(1000 * std::pow(draw(i, 1000) / 1000.0, 2)));
        }) == ColumnKind::kUnclear);
  for (const char* form : {"1,{:03}", "${}", "{} %", "€{}", "1'{:03}.5", "0,{}"})
    CHECK(kind_of([&](uint64_t i) { return fmt::format(fmt::runtime(form), draw(i, 500)); }) ==
          ColumnKind::kUnclear);
  for (const char* form : {"1.2.{}", "1,2,{}", "{}-{}", "a{},000", "1,{:03},0"})
    CHECK(kind_of([&](uint64_t i) {
            return fmt::format(fmt::runtime(form), draw(i, 500), draw(i + 1, 500));
          }) == ColumnKind::kCategory);
}

}  // namespace hlite::prep
