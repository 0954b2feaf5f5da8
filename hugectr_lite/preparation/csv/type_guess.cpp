#include "hugectr_lite/preparation/csv/type_guess.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "data_reader/parquet/parquet_file.h"
#include "hugectr_lite/config/json_values.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/preparation/csv/column_facts.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/csv/csv_sample.h"

namespace hlite::prep {

namespace {

using config::JsonNode;

JsonNode* member_of(JsonNode& node, std::string_view key) {
  for (auto& [name, value] : node.members())
    if (name == key) return &value;
  return nullptr;
}

// Calls visit(block) for the blocks that read a value of a column as a category.
template <typename Visit>
void for_each_block(JsonNode& node, Visit&& visit) {
  JsonNode* const list = member_of(node, "categorical");
  if (!list) return;
  const auto visit_plain = [&](JsonNode& block) {
    for (const char* key : {"buckets", "quantiles", "date", "cross", "separator"})
      if (block.find(key)) return;
    if (block.find("column")) visit(block);
  };
  for (JsonNode& block : list->elements()) {
    if (JsonNode* const cross = member_of(block, "cross"))
      for (JsonNode& one : cross->elements()) visit_plain(one);
    else
      visit_plain(block);
  }
}

void set_type(JsonNode& block, CategoryType type) {
  block.members().emplace_back("type", JsonNode::parse_at(in_quotes(type_name(type)), block));
}

constexpr size_t kBytes = size_t{1} << 20;  // of rows that are looked at; the longest row

// A block without a type, and what its column has.
struct Untyped {
  JsonNode* block;
  std::optional<size_t> column;  // of the file
  std::vector<std::string> missing;
  ColumnFacts facts = {};
};

// Where the block's column is among the names of a header.
std::optional<size_t> place_of(const JsonNode& block, const std::vector<std::string>& header) {
  const JsonNode& column = *block.find("column");
  if (column.kind() == JsonNode::Kind::kInteger) return static_cast<size_t>(column.integer());
  const auto at = std::find(header.begin(), header.end(), column.string());
  if (at == header.end()) return std::nullopt;  // the reader says so
  return static_cast<size_t>(at - header.begin());
}

void gather(const LineBlock& lines, const CsvSchema& schema, std::vector<Untyped>& blocks) {
  int64_t rows = 0;
  CsvFields split;
  lines.for_each_row([&](std::string_view line, int64_t number) {
    if ((number == 1 && schema.header) || is_skipped_line(schema, line)) return true;
    if (split_csv(dialect_of(schema), line, split)) return true;
    for (Untyped& of : blocks) {
      if (!of.column || *of.column >= split.fields.size()) continue;
      const std::string_view field = split.fields[*of.column];
      const bool missing =
          std::find(of.missing.begin(), of.missing.end(), field) != of.missing.end();
      of.facts.add(missing ? std::string_view() : field, number);
    }
    return ++rows < kGuessRows;
  });
}

// True for a column of texts in a Parquet file.
bool is_text_in(const std::optional<data::parquet::ParquetFile>& file, size_t column) {
  return file && column < file->columns().size() &&
         file->columns()[column].values == data::parquet::ValueType::kText;
}

}  // namespace

void add_types(JsonNode& node, const CsvSchema& schema, const std::string& file) {
  std::vector<std::string> missing;
  if (const JsonNode* const list = node.find("missing")) missing = config::to_strings(*list);
  std::vector<Untyped> blocks;
  std::map<std::string, CategoryType> of_vocabulary;  // that the schema says
  for_each_block(node, [&](JsonNode& block) {
    const JsonNode *const type = block.find("type"), *const name = block.find("vocabulary");
    if (type && name)
      for (const auto& [text, value] : category_types())
        if (text == type->string()) of_vocabulary[name->string()] = value;
    if (type) return;
    Untyped& of = blocks.emplace_back(Untyped{.block = &block, .column = {}, .missing = missing});
    if (const JsonNode* const own = block.find("missing"))
      for (const std::string& text : config::to_strings(*own)) of.missing.push_back(text);
  });
  if (blocks.empty()) return;

  LineBlock lines;
  InputFile input(file, text_form_of(schema));
  input.next(lines, kBytes);
  std::vector<std::string> header;
  if (CsvFields names; schema.header && !split_csv(dialect_of(schema), lines.front(), names))
    header.assign(names.fields.begin(), names.fields.end());
  for (Untyped& of : blocks) of.column = place_of(*of.block, header);
  gather(lines, schema, blocks);
  std::optional<data::parquet::ParquetFile> parquet;
  if (input.is_parquet()) parquet.emplace(file);

  std::vector<CategoryType> types;
  std::map<std::string, CategoryType> guessed;
  for (const Untyped& of : blocks) {
    const bool text = !of.column || is_text_in(parquet, *of.column);
    types.push_back(text ? CategoryType::kText : of.facts.type());
    const JsonNode* const name = of.block->find("vocabulary");
    if (!name || of.facts.present() == 0) continue;
    const auto [at, first] = guessed.emplace(name->string(), types.back());
    if (!first && at->second != types.back()) at->second = CategoryType::kText;
  }
  for (const auto& [name, type] : of_vocabulary) guessed[name] = type;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const JsonNode* const name = blocks[i].block->find("vocabulary");
    const auto shared = name ? guessed.find(name->string()) : guessed.end();
    set_type(*blocks[i].block, shared == guessed.end() ? types[i] : shared->second);
  }
}

void add_types_of(const JsonNode& other, JsonNode& node) {
  JsonNode from = other;
  std::vector<const JsonNode*> types;
  for_each_block(from, [&](JsonNode& block) { types.push_back(block.find("type")); });
  size_t i = 0;
  for_each_block(node, [&](JsonNode& block) {
    if (i < types.size() && types[i] && !block.find("type"))
      block.members().emplace_back("type", *types[i]);
    ++i;
  });
}

}  // namespace hlite::prep
