#include "tools/csv/csv_schema.h"

#include <algorithm>

#include "hugectr_lite/config/object_reader.h"
#include "hugectr_lite/core/error.h"
#include "tools/io/in_quotes.h"

namespace hlite::tools {

namespace {

using config::JsonNode;
using config::ObjectReader;

const std::vector<std::pair<std::string, DenseTransform>> kTransforms{
    {"none", DenseTransform::kNone},
    {"log1p", DenseTransform::kLog1p},
    {"standardize", DenseTransform::kStandardize},
    {"log1p_standardize", DenseTransform::kLog1pStandardize}};

CsvColumn parse_column(ObjectReader& reader, bool header) {
  CsvColumn column;
  const JsonNode& node = reader.member("column");
  if (node.kind() == JsonNode::Kind::kInteger && node.integer() >= 0) {
    column.index = node.integer();
    column.name = fmt::format("column {}", column.index);
  } else if (node.kind() == JsonNode::Kind::kString && header) {
    column.header_name = column.name = node.string();
  } else {
    config::fail_expected(node, header ? "a column number >= 0 or a name of the header"
                                       : "a column number >= 0 (names need \"header\": true)");
  }
  column.name = reader.string_or("name", column.name);
  return column;
}

// The first fields of a header, for a message.
std::string names_of(const std::vector<std::string_view>& fields) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(fields.size(), kShown); ++i)
    text += (i > 0 ? ", " : "") + in_quotes(fields[i]);
  return fields.size() > kShown ? fmt::format("{} and {} more", text, fields.size() - kShown)
                                : text;
}

// A label among the features is learnt at once, and of no use where it has to be predicted.
void refuse_label_as_feature(const CsvColumn& label, const CsvColumn& column,
                             const JsonNode& node) {
  if (column.index == label.index && column.header_name == label.header_name)
    config::fail_expected(*node.find("column"), "another column than the label's");
}

}  // namespace

const char* transform_name(DenseTransform transform) {
  return kTransforms[static_cast<size_t>(transform)].first.c_str();
}

CsvSchema CsvSchema::parse(const JsonNode& root) {
  CsvSchema schema;
  ObjectReader reader(root);
  const std::string separator = reader.string_or("separator", ",");
  if (separator.size() != 1 || separator == "\"" || separator == "\n") {
    config::fail_expected(reader.member("separator"), "one character, neither quote nor line feed");
  }
  schema.separator = separator[0];
  schema.header = reader.boolean_or("header", false);
  schema.trim = reader.boolean_or("trim", false);
  schema.missing = reader.string_or("missing", "");

  ObjectReader label = reader.object("label");
  schema.label = parse_column(label, schema.header);
  schema.positive = label.strings("positive");
  if (schema.positive.empty())
    config::fail_expected(label.member("positive"), "at least one text that means label 1");
  if (label.has("negative")) schema.negative = label.strings("negative");
  for (const std::string& value : schema.negative) {
    if (std::find(schema.positive.begin(), schema.positive.end(), value) != schema.positive.end()) {
      config::fail_at(label.node(),
                      fmt::format("{} is both positive and negative", in_quotes(value)));
    }
  }
  label.finish();

  for (const JsonNode& node : reader.list_or_empty("dense")) {
    ObjectReader element(node);
    Dense dense;
    dense.column = parse_column(element, schema.header);
    refuse_label_as_feature(schema.label, dense.column, node);
    dense.transform = element.value_or("transform", DenseTransform::kNone, kTransforms);
    element.finish();
    schema.dense.push_back(dense);
  }
  for (const JsonNode& node : reader.list_or_empty("categorical")) {
    ObjectReader element(node);
    schema.categorical.push_back(parse_column(element, schema.header));
    refuse_label_as_feature(schema.label, schema.categorical.back(), node);
    element.finish();
  }
  if (schema.dense.empty() && schema.categorical.empty()) {
    config::fail_at(root, "expected at least one dense or categorical column, found none");
  }
  reader.finish();
  return schema;
}

void CsvSchema::resolve(const std::vector<std::string_view>& header_fields,
                        const std::string& where) {
  const auto find = [&](CsvColumn& column) {
    if (column.header_name.empty()) return;
    const auto at = std::find(header_fields.begin(), header_fields.end(), column.header_name);
    if (at == header_fields.end()) {
      raise<DataError>("{}: expected a column {} in the header, found {}", where,
                       in_quotes(column.header_name), names_of(header_fields));
    }
    column.index = at - header_fields.begin();
  };
  if (has_label()) find(label);
  for (Dense& d : dense) find(d.column);
  for (CsvColumn& c : categorical) find(c);
}

void CsvSchema::remove_label() {
  const auto move_up = [&](CsvColumn& column) {
    if (label.index >= 0 && column.index > label.index) --column.index;
  };
  for (Dense& d : dense) move_up(d.column);
  for (CsvColumn& c : categorical) move_up(c);
  label.index = -1;
  positive.clear();
}

int64_t CsvSchema::columns_needed() const {
  int64_t most = label.index;
  for (const Dense& d : dense) most = std::max(most, d.column.index);
  for (const CsvColumn& c : categorical) most = std::max(most, c.index);
  return most + 1;
}

}  // namespace hlite::tools
