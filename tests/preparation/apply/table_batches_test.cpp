// The rows of a table score as the same rows as lines of text.
#include "hugectr_lite/preparation/apply/table_batches.h"

#include <cstring>
#include <deque>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "hugectr_lite/preparation/apply/text_batches.h"
#include "hugectr_lite/preparation/csv/csv_prep.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

using test::TemporaryDirectory;
using test::write_text;

// Columns of every kind, and the lines of the same rows.
struct TestTable {
  explicit TestTable(int64_t rows) : missing(static_cast<size_t>(rows)) {
    lines = "y,i,u,f,d,b,t\n";
    for (int64_t row = 0; row < rows; ++row) {
      const uint32_t draw = random::word(1, 7, static_cast<uint64_t>(row));
      const auto r = static_cast<size_t>(row);
      int64s.push_back(static_cast<int64_t>(draw % 13) * 100000 - 5);
      uint64s.push_back(draw % 7);
      floats.push_back(static_cast<float>(draw % 11) / 4);
      doubles.push_back(static_cast<double>(draw % 101) * 0.37);
      bools.push_back(draw % 2);
      texts.push_back("#" + std::to_string(draw % 5) + ",\"x\"\n");
      missing[r] = draw % 10 == 0;
      const auto number = [](auto x) { return fmt::format("{}", x); };
      lines += number(draw % 3 == 0) + "," + (missing[r] ? "" : number(int64s[r])) + "," +
               number(uint64s[r]) + ".0," + number(floats[r]) + "," + number(doubles[r]) + "," +
               (bools[r] ? "True" : "0.0") + ",\"#" + std::to_string(draw % 5) + ",\"\"x\"\"\n\"\n";
    }
  }
  [[nodiscard]] std::vector<TableColumn> columns() const {
    using Kind = TableColumn::Kind;
    return {{},
            {.kind = Kind::kInt64, .values = int64s.data(), .missing = missing.data()},
            {.kind = Kind::kUint64, .values = uint64s.data()},
            {.kind = Kind::kFloat, .values = floats.data()},
            {.kind = Kind::kDouble, .values = doubles.data()},
            {.kind = Kind::kBool, .values = bools.data()},
            {.kind = Kind::kText, .texts = {texts.begin(), texts.end()}}};
  }
  std::string lines;
  std::vector<int64_t> int64s;
  std::vector<uint64_t> uint64s;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<uint8_t> bools, missing;
  std::deque<std::string> texts;
};

constexpr const char* kTableSchema = R"({"header": true, "comment": "#",
  "label": {"column": "y", "positive": "true", "negative": "false"},
  "dense": [{"column": "d", "transform": "standardize"}],
  "categorical": [{"column": "i"}, {"column": "u"}, {"column": "f"}, {"column": "b"},
                  {"column": "t"}]})";

config::DataConfig data_config(int64_t slots) {
  config::DataConfig data;
  data.label_dim = 1;
  data.dense_dim = 1;
  data.float_label = data.float_dense = true;
  config::SparseInputConfig& sparse = data.sparse.emplace_back();
  sparse.slot_num = slots;
  sparse.hotness.assign(static_cast<size_t>(slots), 1);
  sparse.is_fixed_length = true;
  return data;
}

// Dense values and keys of all batches.
template <typename Batches>
std::string all_of(Batches& batches) {
  std::string bytes;
  for (;;) {
    const data::HostBatch& batch = batches.next();
    if (batch.size == 0) return bytes;
    const auto add = [&](const auto* values, int64_t columns) {
      bytes.append(reinterpret_cast<const char*>(values),
                   static_cast<size_t>(4 * batch.size * columns));
    };
    add(batch.dense.data(), batch.dense.dim(1));
    add(batch.keys.data(), batch.keys.dim(1));
  }
}

}  // namespace

TEST_CASE("rows of a table become the batches of the same rows as lines", "[threads]") {
  const TemporaryDirectory folder;
  const TestTable training(500);
  write_text(folder / "train.csv", training.lines);
  write_text(folder / "schema.json", kTableSchema);
  CsvPrepOptions options{.schema = folder / "schema.json", .train = {folder / "train.csv"}};
  options.output.folder = folder / "out";
  const data::Manifest manifest = csv_prep(options);
  const Preparation preparation(folder / "out", Labels::kThere);
  for (const auto& [rows, threads] : {std::pair(1, 1), std::pair(7, 2), std::pair(5003, 3)}) {
    INFO(rows << " rows on " << threads << " threads");
    const TestTable table(rows);
    write_text(folder / "new.csv", table.lines);
    const config::DataConfig config = data_config(5);
    ThreadPool pool(threads);
    TextBatches text(preparation, folder / "new.csv", config, manifest.slot_sizes, 1000, pool);
    const std::string expected = all_of(text);
    const std::vector<TableColumn> columns = table.columns();
    TableBatches batches(preparation, columns, rows, config, manifest.slot_sizes, 1000, pool);
    CHECK(all_of(batches) == expected);
    CHECK(batches.unknown().rows == rows);
    CHECK(batches.unknown().missing == text.unknown().missing);
    CHECK(batches.unknown().unknown == text.unknown().unknown);
  }
  TestTable wrong(2000);
  std::vector<TableColumn> columns = wrong.columns();
  wrong.doubles[1234] = 0.5;
  columns[5] = columns[4];  // numbers in place of booleans
  ThreadPool pool(2);
  const config::DataConfig config = data_config(5);
  TableBatches batches(preparation, columns, 2000, config, manifest.slot_sizes, 4000, pool);
  test::check_contains(
      test::message_of<DataError>([&] { batches.next(); }),
      {"frame: row ", ": column 5 (b): expected a boolean, the type of the column"});
}

}  // namespace hlite::prep
