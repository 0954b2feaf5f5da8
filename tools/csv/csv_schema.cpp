#include "tools/csv/csv_schema.h"

#include <algorithm>
#include <map>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"

namespace hlite::tools {

namespace {

using config::Block;
using config::JsonNode;
using config::kRequired;

const std::vector<std::pair<std::string, DenseTransform>> kTransforms{
    {"none", DenseTransform::kNone},
    {"log1p", DenseTransform::kLog1p},
    {"standardize", DenseTransform::kStandardize},
    {"log1p_standardize", DenseTransform::kLog1pStandardize}};

void declare(Block& s, CsvColumn& column, bool header) {
  s.value("column", kRequired, [&](const JsonNode& node) {
    if (node.kind() == JsonNode::Kind::kInteger && node.integer() >= 0) {
      column.index = node.integer();
      column.name = fmt::format("column {}", column.index);
    } else if (node.kind() == JsonNode::Kind::kString && header) {
      column.header_name = column.name = node.string();
    } else {
      config::fail_expected(node, header ? "a column number >= 0 or a name of the header"
                                         : "a column number >= 0 (names need \"header\": true)");
    }
  });
  s.text("name", &column.name);
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

// A feature. The label would be learnt at once, and is of no use where it has to be predicted.
void declare_feature(Block& s, CsvColumn& column, const CsvSchema& schema) {
  declare(s, column, schema.header);
  if (s.has("column") && column.index == schema.label.index &&
      column.header_name == schema.label.header_name)
    s.expected("column", "another column than the label's");
}

void declare_label(Block& s, CsvSchema& schema) {
  declare(s, schema.label, schema.header);
  if (s.strings("positive", &schema.positive, "", kRequired) && schema.positive.empty())
    s.expected("positive", "at least one text that means label 1");
  s.strings("negative", &schema.negative);
  for (const std::string& value : schema.negative)
    if (std::find(schema.positive.begin(), schema.positive.end(), value) != schema.positive.end())
      s.refuse("", fmt::format("{} is both positive and negative", in_quotes(value)));
}

// A name that one column has alone is a slip.
void check_vocabularies(const JsonNode& list, const CsvSchema& schema) {
  for (size_t k = 0; k < schema.categorical.size(); ++k) {
    const std::string& name = schema.categorical[k].vocabulary;
    const auto same = std::count_if(schema.categorical.begin(), schema.categorical.end(),
                                    [&](const CsvColumn& c) { return c.vocabulary == name; });
    if (!name.empty() && same == 1)
      config::fail_expected(*list.elements()[k].find("vocabulary"),
                            "a name that another categorical column has too");
  }
}

}  // namespace

const char* transform_name(DenseTransform transform) {
  return kTransforms[static_cast<size_t>(transform)].first.c_str();
}

CsvSchema CsvSchema::parse(const JsonNode& root) {
  CsvSchema schema;
  config::read_object(root, [&](Block& s) {
    std::string separator = ",";
    s.text("separator", &separator);
    if (separator.size() != 1 || separator == "\"" || separator == "\n")
      s.expected("separator", "one character, neither quote nor line feed");
    schema.separator = separator[0];
    s.boolean("header", &schema.header);
    s.boolean("trim", &schema.trim);
    s.strings("missing", &schema.missing);
    s.strings("comment", &schema.comment);
    if (std::count(schema.comment.begin(), schema.comment.end(), "") > 0)
      s.expected("comment", "texts of at least one character");
    if (auto label = s.object("label", "", kRequired)) declare_label(*label, schema);
    s.value("dense", {}, [&](const JsonNode& list) {
      for (const JsonNode& node : config::to_list(list))
        config::read_object(node, [&](Block& of) {
          Dense& dense = schema.dense.emplace_back();
          declare_feature(of, dense.column, schema);
          of.choice("transform", &dense.transform, kTransforms, "");
        });
    });
    s.value("categorical", {}, [&](const JsonNode& list) {
      for (const JsonNode& node : config::to_list(list))
        config::read_object(node, [&](Block& of) {
          CsvColumn& column = schema.categorical.emplace_back();
          declare_feature(of, column, schema);
          if (of.text("vocabulary", &column.vocabulary) && column.vocabulary.empty())
            of.expected("vocabulary", "a name");
        });
      check_vocabularies(list, schema);
    });
    s.finish();
    s.check([&] {
      if (schema.dense.empty() && schema.categorical.empty())
        config::fail_at(root, "expected at least one dense or categorical column, found none");
    });
  });
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

std::vector<int64_t> CsvSchema::slot_tables() const {
  std::vector<int64_t> tables;
  std::map<std::string, int64_t> of_vocabulary;
  int64_t next = 0;
  for (const CsvColumn& c : categorical) {
    const int64_t table =
        c.vocabulary.empty() ? next : of_vocabulary.emplace(c.vocabulary, next).first->second;
    next += table == next;
    tables.push_back(table);
  }
  return next == std::ssize(tables) ? std::vector<int64_t>() : tables;
}

int64_t CsvSchema::columns_needed() const {
  int64_t most = label.index;
  for (const Dense& d : dense) most = std::max(most, d.column.index);
  for (const CsvColumn& c : categorical) most = std::max(most, c.index);
  return most + 1;
}

}  // namespace hlite::tools
