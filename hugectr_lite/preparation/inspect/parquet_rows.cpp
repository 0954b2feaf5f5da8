#include <algorithm>

#include "data_reader/parquet/parquet_set.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/inspect/rows.h"

namespace hlite::prep {
namespace {

using data::parquet::ParquetColumn;
using data::parquet::ParquetFile;

// "columns: "label" INT32; "I1" to "I13" FLOAT; ...": neighbours of one type together.
std::string columns_text(const ParquetFile& file) {
  const std::vector<ParquetColumn>& columns = file.columns();
  std::string text = "columns:";
  for (size_t first = 0; first < columns.size();) {
    size_t end = first + 1;
    while (end < columns.size() && columns[end].type == columns[first].type) ++end;
    text += fmt::format("{} \"{}\"{} {}", first == 0 ? "" : ";", columns[first].name,
                        end - first > 1 ? fmt::format(" to \"{}\"", columns[end - 1].name) : "",
                        columns[first].type);
    first = end;
  }
  return text;
}

}  // namespace

ParquetFacts parquet_rows(const FileFacts& file, int64_t wanted) {
  const auto source = data::parquet::ParquetSource::find(file.path);
  int64_t rows = 0, groups = 0, least = INT64_MAX, most = 0;
  ParquetFacts facts;
  for (size_t f = 0; f < source.files.size(); ++f) {
    const ParquetFile parquet(source.files[f]);
    rows += parquet.rows();
    groups += std::ssize(parquet.groups());
    for (const auto& group : parquet.groups()) {
      least = std::min(least, group.rows);
      most = std::max(most, group.rows);
    }
    if (f > 0) continue;
    facts.remarks.push_back(columns_text(parquet));
    facts.remarks.push_back(fmt::format("written by {}", parquet.created_by()));
  }
  facts.summary = fmt::format("{} Parquet file(s), {} row groups of {} to {} rows, {} rows",
                              source.files.size(), groups, groups > 0 ? least : 0, most, rows);
  if (!source.metadata.empty())
    facts.remarks.push_back(fmt::format("{} names its columns", source.metadata));
  if (source.files.size() > 1)
    facts.remarks.push_back(fmt::format("the statistics are of {}", source.files[0]));
  try {
    const CsvSample sample(source.files[0]);
    TableGuess guess = guess_table(sample);
    add_remarks(guess, facts.remarks);
    facts.rows = table_rows(sample, std::move(guess), wanted);
  } catch (const DataError& error) {  // no row
    facts.remarks.emplace_back(error.what());
  }
  return facts;
}

}  // namespace hlite::prep
