#include "tools/synth/criteo_profile.h"

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::tools {
namespace {

using test::TemporaryDirectory;

const std::string kDenseHeader =
    "column\trows\tmissing_rate\tnegative_rate\tzero_"
    "rate\tmin\tp01\tp10\tp25\tp50\tp75\tp90\tp99\tmax"
    "\tmean_log1p\n";
const std::string kTokenHeader =
    "column\tfull_kaggle_cardinality\tmissing_rate_4584\tdistinct_in_10000\ttop1_share_10000\t"
    "top10_share_10000\ttop100_share_10000\n";

std::string lines(int n, const std::string& line) {
  std::string text;
  for (int i = 0; i < n; ++i) text += "c\t" + line + "\n";
  return text;
}
const std::string kDenseLine = "100\t0.25\t0.1\t0.2\t-2\t-1\t0\t1\t2\t3\t4\t50\t600\t1.25";
const std::string kTokenLine = "1000\t0.5\t40\t0.25\t0.375\t0.5";

TEST_CASE("a profile is read from its two tables") {
  const TemporaryDirectory folder;
  test::write_text(folder / "dense_columns.tsv", kDenseHeader + lines(13, kDenseLine));
  test::write_text(folder / "categorical_columns.tsv", kTokenHeader + lines(26, kTokenLine));
  const CriteoProfile p = read_profile(folder.path());
  CHECK(p.integers[12].missing == 0.25);
  CHECK(p.integers[12].negative == 0.1);
  CHECK(p.integers[12].zero == 0.2);
  CHECK(p.integers[12].quantile == std::array<int32_t, 9>{-2, -1, 0, 1, 2, 3, 4, 50, 600});
  CHECK(p.integers[12].mean_log1p == 1.25);
  CHECK(p.tokens[25].cardinality == 1000);
  CHECK(p.tokens[25].missing == 0.5);
  CHECK(p.tokens[25].distinct == 40);
  CHECK(p.tokens[25].top_share[2] == 0.5);
  // All 40 tokens are among the top 100: what they leave of the rows is missing.
  CHECK(p.missing_in_token_rows(25) == 0.5);
}

TEST_CASE("damaged profiles are refused with file and line") {
  const TemporaryDirectory folder;
  const auto message = [&](const std::string& dense, const std::string& tokens) {
    test::write_text(folder / "dense_columns.tsv", dense);
    test::write_text(folder / "categorical_columns.tsv", tokens);
    return test::message_of<DataError>([&] { read_profile(folder.path()); });
  };
  const std::string tokens = kTokenHeader + lines(26, kTokenLine);
  test::check_contains(message("", tokens), {"dense_columns.tsv", "found 0 lines"});
  test::check_contains(message(kDenseHeader + lines(12, kDenseLine), tokens), {"found 13 lines"});
  test::check_contains(message("a\tb\n" + lines(13, kDenseLine), tokens),
                       {"dense_columns.tsv:1", "missing_rate"});
  test::check_contains(message(kDenseHeader + lines(12, kDenseLine) + "c\t1\t1.5\n", tokens),
                       {"dense_columns.tsv:14", "missing_rate", "0 to 1", "1.5"});
  const std::string falling = "100\t0.25\t0.1\t0.2\t5\t4\t0\t1\t2\t3\t4\t50\t600\t1.25";
  test::check_contains(message(kDenseHeader + lines(13, falling), tokens),
                       {"dense_columns.tsv:2", "p01", "at least 5", "4"});
  test::check_contains(message(kDenseHeader + lines(13, kDenseLine),
                               kTokenHeader + lines(25, kTokenLine) + "c\tmany\n"),
                       {"categorical_columns.tsv:27", "full_kaggle_cardinality", "\"many\""});
}

TEST_CASE("the built-in table is of a public data set's known size") {
  const CriteoProfile& p = criteo_profile();
  int64_t total = 0;
  for (const TokenProfile& t : p.tokens) total += t.cardinality;
  CHECK(total == 33762577);  // Criteo Kaggle, all 26 columns
  // Columns that are missing together; C22 is rarer at the start of the data.
  CHECK(p.missing_in_token_rows(19) == p.missing_in_token_rows(25));
  CHECK(p.missing_in_token_rows(21) == Approx(0.8182));
  CHECK(p.missing_in_token_rows(0) == 0.0);
}

}  // namespace
}  // namespace hlite::tools
