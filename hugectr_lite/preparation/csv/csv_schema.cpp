#include "hugectr_lite/preparation/csv/csv_schema.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "hugectr_lite/config/block.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/column_blocks.h"

namespace hlite::prep {

namespace {

using config::Block;
using config::JsonNode;
using config::kRequired;

const std::vector<std::pair<std::string, DenseTransform>> kTransforms{
    {"none", DenseTransform::kNone},
    {"log1p", DenseTransform::kLog1p},
    {"standardize", DenseTransform::kStandardize},
    {"log1p_standardize", DenseTransform::kLog1pStandardize}};

// Maximum number of values in all categorical columns of a row. More is taken for a mistake.
constexpr int64_t kMaxValues = 1 << 16;

// The first fields of a header, for a message.
std::string names_of(const std::vector<std::string_view>& fields) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(fields.size(), kShown); ++i)
    text += (i > 0 ? ", " : "") + in_quotes(fields[i]);
  return fields.size() > kShown ? fmt::format("{} and {} more", text, fields.size() - kShown)
                                : text;
}

// `several`: one of a list.
void declare_label(Block& s, CsvSchema& schema, CsvColumn& column, bool several) {
  LabelTexts& texts = schema.texts.emplace_back();
  declare_column(s, column, schema.header);
  column.missing = schema.missing;
  if (!several) s.boolean("real", &schema.real_label);
  if (schema.real_label) {
    for (const char* key : {"positive", "negative"})
      if (s.has(key)) s.refuse(key, "expected none with \"real\": true, as the label is a number");
    return;
  }
  if (s.strings("positive", &texts.positive, "", kRequired) && texts.positive.empty())
    s.expected("positive", "at least one text that means label 1");
  s.strings("negative", &texts.negative);
  for (const std::string& value : texts.negative)
    if (std::find(texts.positive.begin(), texts.positive.end(), value) != texts.positive.end())
      s.refuse("", fmt::format("{} is both positive and negative", in_quotes(value)));
}

void declare_labels(Block& s, CsvSchema& schema) {
  s.value("label", kRequired, [&](const JsonNode& node) {
    const bool several = node.kind() == JsonNode::Kind::kArray;
    if (several && node.elements().empty()) config::fail_expected(node, "at least one label");
    schema.texts.clear();
    const auto declare = [&](CsvColumn& column) {
      return [&](Block& of) { declare_label(of, schema, column, several); };
    };
    if (!several) return config::read_object(node, declare(schema.label));
    config::read_object(node.elements().front(), declare(schema.label));
    for (const JsonNode& label : std::span(node.elements()).subspan(1))
      config::read_object(label, declare(schema.dense.emplace_back().number.column));
  });
}

// A name that one column has alone is a slip. `nodes`: of each categorical column.
void check_vocabularies(const std::vector<const JsonNode*>& nodes, const CsvSchema& schema) {
  for (size_t k = 0; k < schema.categorical.size(); ++k) {
    const std::string& name = schema.categorical[k].vocabulary;
    const auto same = std::count_if(schema.categorical.begin(), schema.categorical.end(),
                                    [&](const CategoryColumn& c) { return c.vocabulary == name; });
    if (!name.empty() && same == 1)
      config::fail_expected(*nodes[k]->find("vocabulary"),
                            "a name that another categorical column has too");
  }
}

// The columns of a history are slots of one input.
void check_histories(const std::vector<const JsonNode*>& nodes, const CsvSchema& schema) {
  const std::vector<data::History> histories = schema.histories();
  for (const data::History& history : histories) {
    const auto first = static_cast<size_t>(history.first_slot);
    for (size_t k = 0; k < schema.categorical.size(); ++k) {
      const CategoryColumn& column = schema.categorical[k];
      if (!column.is_history() || column.list->history != history.name) continue;
      if (static_cast<int64_t>(k) < history.first_slot ||
          static_cast<int64_t>(k) >= history.first_slot + history.slots)
        config::fail_at(*nodes[k]->find("history"),
                        "expected the columns of a history one after the other, found others "
                        "between them");
      if (const int64_t most = schema.categorical[first].list->max_values;
          column.list->max_values != most)
        config::fail_expected(*nodes[k]->find("max_values"),
                              fmt::format("{}, as the first column of the history has", most));
    }
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
    declare_labels(s, schema);
    ColumnRules rules{schema.header, schema.trim, schema.missing, {schema.label}};
    for (const Dense& label : schema.dense) rules.labels.push_back(label.number.column);
    if (auto weight = s.object("weight", "")) {
      if (weight->node()) schema.weighted = true;
      CsvSchema::Dense column;
      declare_other_column(*weight, column.number.column, rules);
      if (schema.weighted) schema.dense.push_back(std::move(column));
    }
    s.value("dense", {}, [&](const JsonNode& list) {
      for (const JsonNode& node : config::to_list(list))
        config::read_object(node, [&](Block& of) {
          Dense& dense = schema.dense.emplace_back();
          declare_number(of, dense.number, rules);
          of.choice("transform", &dense.transform, kTransforms, "");
        });
    });
    s.value("categorical", {}, [&](const JsonNode& list) {
      std::vector<const JsonNode*> nodes;
      for (const JsonNode& node : config::to_list(list)) {
        config::read_object(node,
                            [&](Block& of) { declare_categories(of, schema.categorical, rules); });
        nodes.resize(schema.categorical.size(), &node);
      }
      check_vocabularies(nodes, schema);
      check_histories(nodes, schema);
      const std::vector<int64_t> most = schema.hotness();
      if (const auto values = std::accumulate(most.begin(), most.end(), int64_t{0});
          values > kMaxValues)
        config::fail_at(list, fmt::format("expected at most {} values in all columns together "
                                          "(max_values), found {}",
                                          kMaxValues, values));
    });
    s.value("carry", {}, [&](const JsonNode& list) {
      for (const JsonNode& node : config::to_list(list)) {
        CsvColumn& column = schema.carry.emplace_back();
        if (node.kind() == JsonNode::Kind::kInteger && node.integer() >= 0) {
          column.index = node.integer();
          column.name = fmt::format("column {}", column.index);
        } else if (node.kind() == JsonNode::Kind::kString && schema.header) {
          column.header_name = column.name = node.string();
        } else {
          config::fail_expected(node, schema.header
                                          ? "a column number >= 0 or a name of the header"
                                          : "a column number >= 0 (names need \"header\": true)");
        }
      }
    });
    s.finish();
    s.check([&] {
      if (schema.features().empty() && schema.categorical.empty())
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
    const auto other = std::find(at + 1, header_fields.end(), column.header_name);
    if (other != header_fields.end())
      raise<DataError>("{}: expected one column {} in the header, found two, columns {} and {}",
                       where, in_quotes(column.header_name), column.index,
                       other - header_fields.begin());
  };
  if (labelled) find(label);
  for_each_input(find);
  for (CsvColumn& column : carry) find(column);
}

void CsvSchema::find_by_name(const std::vector<std::string>& names) {
  const auto name = [&](CsvColumn& column) {
    if (column.index < 0 || column.index >= std::ssize(names)) return;
    const std::string& found = names[static_cast<size_t>(column.index)];
    if (found.empty() || std::count(names.begin(), names.end(), found) > 1) return;
    column.header_name = found;
    column.index = -1;
  };
  name(label);
  for_each_input(name);
  for (CsvColumn& column : carry) name(column);
}

void CsvSchema::set_carry(const std::vector<std::string>& names) {
  carry.clear();
  for (const std::string& name : names) {
    CsvColumn& column = carry.emplace_back();
    column.name = name;
    const auto number = parse_number<int64_t>(name);
    const auto named = [&](const CsvColumn& known) {
      if (known.name != name || column.index >= 0 || !column.header_name.empty()) return;
      column.index = known.index;
      column.header_name = known.header_name;
    };
    named(label);
    for_each_input(named);
    if (column.index >= 0 || !column.header_name.empty()) continue;
    if (header)
      column.header_name = name;
    else if (number && *number >= 0)
      column.index = *number;
    else
      raise<ConfigError>(
          "--carry: expected names of columns in the schema, or numbers of columns, found {}",
          in_quotes(name));
  }
}

void CsvSchema::remove_label() {
  std::vector<CsvColumn> gone = {std::exchange(label, {})};
  for (size_t k = 0; k < no_features(); ++k)
    gone.push_back(std::exchange(dense[k].number.column, {}));
  const auto move_up = [&](CsvColumn& column) {
    column.index -= std::count_if(gone.begin(), gone.end(), [&](const CsvColumn& one) {
      return one.index >= 0 && one.index < column.index;
    });
  };
  for_each_input(move_up);
  for (CsvColumn& column : carry) {
    for (size_t l = 0; l < texts.size(); ++l)
      if (!column.header_name.empty() ? column.header_name == gone[l].header_name
                                      : column.index == gone[l].index)
        raise<ConfigError>("--carry: expected columns that the lines have, found {}, the label",
                           in_quotes(column.name));
    move_up(column);
  }
  labelled = false;
}

std::vector<int64_t> CsvSchema::slot_tables() const {
  std::vector<int64_t> tables;
  std::map<std::string, int64_t> of_vocabulary;
  int64_t next = 0;
  for (const CategoryColumn& c : categorical) {
    const int64_t table =
        c.vocabulary.empty() ? next : of_vocabulary.emplace(c.vocabulary, next).first->second;
    next += table == next;
    tables.push_back(table);
  }
  return next == std::ssize(tables) ? std::vector<int64_t>() : tables;
}

std::vector<int64_t> CsvSchema::hotness() const {
  std::vector<int64_t> values;
  for (const CategoryColumn& c : categorical) values.push_back(c.max_values());
  const bool lists = std::any_of(categorical.begin(), categorical.end(),
                                 [](const CategoryColumn& c) { return c.list.has_value(); });
  return lists ? values : std::vector<int64_t>();
}

std::vector<data::History> CsvSchema::histories() const {
  std::vector<data::History> all;
  for (size_t k = 0; k < categorical.size(); ++k) {
    if (!categorical[k].is_history()) continue;
    const std::string& name = categorical[k].list->history;
    if (all.empty() || all.back().name != name)
      all.push_back({.name = name, .first_slot = static_cast<int64_t>(k)});
    ++all.back().slots;
  }
  return all;
}

int64_t CsvSchema::columns_needed() const {
  int64_t most = label.index;
  for_each_input([&](const CsvColumn& column) { most = std::max(most, column.index); });
  for (const CsvColumn& column : carry) most = std::max(most, column.index);
  return most + 1;
}

namespace {

void add_inputs(const NumberColumn& number, std::vector<FeatureInput>& inputs) {
  if (!number.age) return inputs.push_back({.column = number.column, .is_number = true});
  inputs.push_back({.column = number.column, .date_format = number.age->date.format.text()});
  if (number.age->other)
    inputs.push_back(
        {.column = *number.age->other, .date_format = number.age->other_date.format.text()});
}

void add_inputs(const CategoryColumn& category, std::vector<FeatureInput>& inputs) {
  switch (category.kind) {
    case CategoryColumn::Kind::kField:
      return inputs.push_back({.column = category.column, .type = category.type});
    case CategoryColumn::Kind::kNumber:
      return add_inputs(category.number, inputs);
    case CategoryColumn::Kind::kDatePart:
      return inputs.push_back(
          {.column = category.column, .date_format = category.date.format.text()});
    case CategoryColumn::Kind::kCross:
      for (const CategoryColumn& one : category.of) add_inputs(one, inputs);
  }
}

}  // namespace

std::vector<FeatureInput> CsvSchema::inputs() const {
  std::vector<FeatureInput> inputs;
  for (const Dense& d : features()) add_inputs(d.number, inputs);
  for (const CategoryColumn& c : categorical) add_inputs(c, inputs);
  return inputs;
}

Buckets saved_buckets(const JsonNode& feature) {
  std::vector<double> edges;
  for (const JsonNode& edge : config::to_list(config::member(feature, kEdges)))
    edges.push_back(config::to_number(edge));
  return Buckets(std::move(edges));
}

}  // namespace hlite::prep
