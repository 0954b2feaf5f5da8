#include "hugectr_lite/preparation/csv/column_blocks.h"

#include <algorithm>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/in_quotes.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/csv/csv_record.h"

namespace hlite::prep {

using config::Block;
using config::JsonNode;
using config::kRequired;

void declare_column(Block& s, CsvColumn& column, bool header) {
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

// The label would be learnt at once, and is of no use where it has to be predicted.
void declare_other_column(Block& s, CsvColumn& column, const ColumnRules& rules) {
  declare_column(s, column, rules.header);
  const auto is_this = [&](const CsvColumn& label) {
    return column.index == label.index && column.header_name == label.header_name;
  };
  if (s.has("column") && std::any_of(rules.labels.begin(), rules.labels.end(), is_this))
    s.expected("column", "another column than the label's");
}

namespace {

constexpr int64_t kMaxQuantiles = 1000;

// A column that a feature is read from.
void declare_input(Block& s, CsvColumn& column, const ColumnRules& rules) {
  declare_other_column(s, column, rules);
  s.strings("missing", &column.own_missing);
  column.missing = rules.missing;
  column.missing.insert(column.missing.end(), column.own_missing.begin(), column.own_missing.end());
  for (const std::string& text : column.missing)
    if (const auto x = parse_number<double>(text)) column.missing_numbers.push_back(*x);
}

std::pair<double, double> to_range(const JsonNode& node) {
  const std::vector<JsonNode>& ends = config::to_list(node);
  if (ends.size() != 2) config::fail_expected(node, "two numbers, the lowest and the highest");
  const double low = config::to_number(ends[0]), high = config::to_number(ends[1]);
  if (!(low < high))
    config::fail_at(ends[1],
                    fmt::format("expected a number above {}, the lowest one, found {}", low, high));
  return {low, high};
}

DateFormat to_format(const JsonNode& node) {
  try {
    return DateFormat(config::to_string(node));
  } catch (const ConfigError& error) {
    config::fail_at(node, error.what());
  }
}

void expect_directives(Block& s, const char* key, const DateFormat& format,
                       std::string_view directives, std::string_view what) {
  if (format.text().empty()) return;  // it is not there, or refused
  for (const char directive : directives)
    if (!format.has(directive))
      s.refuse(key, fmt::format("expected a format with %{} for {}, found {}", directive, what,
                                in_quotes(format.text())));
}

const config::Choices<bool> kMalformed{{"error", false}, {"missing", true}};

void declare_rule(Block& s, DateRule& rule) {
  s.value("format", kRequired, [&](const JsonNode& node) { rule.format = to_format(node); });
  s.choice("malformed", &rule.malformed_is_missing, kMalformed);
}

// The other date of an age: text in the format of the column, or a column.
void declare_since(Block& s, DateAge& age, const ColumnRules& rules) {
  if (const JsonNode* node = s.node();
      node && s.has("since") && node->find("since")->kind() == JsonNode::Kind::kObject) {
    auto other = s.object("since");
    declare_input(*other, age.other.emplace(), rules);
    age.other_date = age.date;
    other->value("format", {}, [&](const JsonNode& of) { age.other_date.format = to_format(of); });
    expect_directives(*other, "format", age.other_date.format, "Y", "an age");
    return;
  }
  s.value("since", kRequired, [&](const JsonNode& node_of_since) {
    const auto date = age.date.format.parse(config::to_string(node_of_since));
    if (age.date.format.text().empty()) return;
    if (!date)
      config::fail_expected(node_of_since, "a date as " + in_quotes(age.date.format.text()) +
                                               ", or the block of a column");
    age.since = static_cast<double>(date->seconds()) + date->fraction;
  });
}

void declare_age(Block& s, DateAge& age, const ColumnRules& rules) {
  declare_rule(s, age.date);
  s.choice("age", &age.hours, {{"days", false}, {"hours", true}}, "", kRequired);
  expect_directives(s, "format", age.date.format, "Y", "an age");
  declare_since(s, age, rules);
}

// Returns the parts.
std::vector<DatePart> declare_parts(Block& s, DateRule& rule) {
  std::vector<std::string> names;
  std::vector<DatePart> parts;
  declare_rule(s, rule);
  if (!s.strings("parts", &names, "", kRequired)) return parts;
  std::string known;
  for (const auto& [name, part] : date_parts()) known += (known.empty() ? "" : ", ") + name;
  for (const std::string& name : names) {
    const auto found = std::find_if(date_parts().begin(), date_parts().end(),
                                    [&](const auto& named) { return named.first == name; });
    if (found == date_parts().end()) {
      s.refuse("parts",
               fmt::format("expected parts of a date ({}), found {}", known, in_quotes(name)));
      continue;
    }
    if (std::find(parts.begin(), parts.end(), found->second) != parts.end())
      s.refuse("parts", "expected each part once, found " + in_quotes(name) + " again");
    parts.push_back(found->second);
    expect_directives(s, "format", rule.format, directives_of(found->second), "the part " + name);
  }
  if (names.empty()) s.expected("parts", "at least one part of a date");
  return parts;
}

}  // namespace

void declare_number(Block& s, NumberColumn& number, const ColumnRules& rules) {
  declare_input(s, number.column, rules);
  if (auto date = s.object("date")) declare_age(*date, number.age.emplace(), rules);
  s.value("clip", {}, [&](const JsonNode& node) {
    const auto [low, high] = to_range(node);
    number.clip = {low, high};
  });
}

namespace {

std::vector<double> to_edges(const JsonNode& node) {
  std::vector<double> edges;
  for (const JsonNode& element : config::to_list(node)) {
    const double edge = config::to_number(element);
    if (!edges.empty() && !(edge > edges.back()))
      config::fail_at(
          element, fmt::format("expected ascending edges, found {} after {}", edge, edges.back()));
    edges.push_back(edge + 0.0);
  }
  if (edges.empty()) config::fail_expected(node, "at least one edge");
  return edges;
}

constexpr int64_t kMaxValuesOfField = 1000;

// Several values in a field.
void declare_list(Block& s, CategoryColumn& category, const ColumnRules& rules) {
  ValueList list;
  list.trim = rules.trim;
  if (s.text("separator", &list.separator) && list.separator.empty())
    s.expected("separator", "the text between the values of a field");
  // Blanks at the ends of fields are gone, and with them a part of the separator.
  if (list.trim && !trimmed(list.separator).empty()) list.separator = trimmed(list.separator);
  s.integer("max_values", &list.max_values, {.min = 2, .max = kMaxValuesOfField});
  s.boolean("truncate", &list.truncates);
  if (s.choice("keep", &list.latest, {{"first", false}, {"last", true}}, "")) list.truncates = true;
  if (s.has("truncate") && s.has("keep"))
    s.refuse("keep", "expected \"truncate\" or \"keep\", found both");
  if (s.text("history", &list.history)) {
    if (list.history.empty()) s.expected("history", "the name of the history");
    if (list.truncates && !list.latest)
      s.refuse("history", "expected \"keep\": \"last\", as a history keeps its latest values");
    list.truncates = list.latest = true;
  }
  const bool separated = s.has("separator");
  for (const char* key : {"max_values", "truncate", "keep", "history"})
    if (s.has(key) && !separated)
      s.refuse(key, "\"separator\", the text between the values of a field, is required with it");
  if (!separated) return;
  if (s.has("date"))
    s.refuse("separator", "expected a date or a field of several values, found both");
  if (!s.has("max_values"))
    s.refuse("separator",
             "\"max_values\", the maximum number of values in a field, is required with it");
  category.list = std::move(list);
}

void declare_buckets(Block& s, CategoryColumn& category, const ColumnRules& rules) {
  category.kind = CategoryColumn::Kind::kNumber;
  declare_number(s, category.number, rules);
  category.name = category.number.column.name;
  s.value("buckets", {}, [&](const JsonNode& node) { category.buckets.emplace(to_edges(node)); });
  s.integer("quantiles", &category.quantiles, {.min = 2, .max = kMaxQuantiles});
  if (s.has("buckets") && s.has("quantiles"))
    s.refuse("quantiles", "expected buckets or quantiles, found both");
}

}  // namespace

namespace {

// A member of a cross: the name of a categorical column before it, or a block of its own.
CategoryColumn to_member(const JsonNode& node, const std::vector<CategoryColumn>& before,
                         const ColumnRules& rules) {
  if (node.kind() == JsonNode::Kind::kObject) {
    std::vector<CategoryColumn> own;
    config::read_object(node, [&](Block& s) { declare_categories(s, own, rules); });
    if (own.size() != 1) config::fail_at(node, "expected one part of a date, found several");
    if (!own.front().vocabulary.empty())
      config::fail_at(node,
                      "expected no vocabulary in a column of a cross, whose pairs are numbered");
    return own.front();
  }
  const auto found =
      std::find_if(before.begin(), before.end(), [&](const CategoryColumn& category) {
        return node.kind() == JsonNode::Kind::kString && category.name == node.string();
      });
  if (found != before.end()) return *found;
  std::string names;
  for (const CategoryColumn& category : before)
    names += (names.empty() ? "" : ", ") + in_quotes(category.name);
  config::fail_expected(node, "the block of a categorical column, or the name of one before it (" +
                                  (names.empty() ? "there is none" : names) + ")");
}

void declare_cross(Block& s, CategoryColumn& cross, const std::vector<CategoryColumn>& before,
                   const ColumnRules& rules) {
  cross.kind = CategoryColumn::Kind::kCross;
  s.value("cross", kRequired, [&](const JsonNode& node) {
    const std::vector<JsonNode>& members = config::to_list(node);
    if (members.size() < 2 || members.size() > 3)
      config::fail_expected(node, "two or three categorical columns");
    for (const JsonNode& member : members) {
      const CategoryColumn& column = cross.of.emplace_back(to_member(member, before, rules));
      if (column.kind == CategoryColumn::Kind::kCross)
        config::fail_at(member, "expected a column that is no cross: list its columns instead");
      if (column.list)
        config::fail_at(member, "expected a column of one value, found one of several values");
      if (!column.is_fitted())
        config::fail_at(member,
                        "expected a column whose categories follow from the schema, found "
                        "quantiles: take buckets");
      cross.name += (cross.name.empty() ? "" : " x ") + column.name;
    }
  });
  s.text("name", &cross.name);
  s.integer("hash", &cross.hash, {.min = 1, .max = int64_t{1} << 31});
  s.integer("limit", &cross.limit, {.min = 1});
}

}  // namespace

void declare_categories(Block& s, std::vector<CategoryColumn>& categories,
                        const ColumnRules& rules) {
  CategoryColumn category;
  std::vector<DatePart> parts;
  if (s.has("cross")) {
    declare_cross(s, category, categories, rules);
  } else if (s.has("buckets") || s.has("quantiles")) {
    declare_buckets(s, category, rules);
  } else {
    declare_input(s, category.column, rules);
    category.name = category.column.name;
    CategoryType type = CategoryType::kText;
    if (s.choice("type", &type, category_types(), "")) category.type = type;
    if (category.type && s.has("date"))
      s.refuse("type", "expected a date or a type of values, found both");
    declare_list(s, category, rules);
    if (auto date = s.object("date")) {
      category.kind = CategoryColumn::Kind::kDatePart;
      parts = declare_parts(*date, category.date);
    }
  }
  if (s.text("vocabulary", &category.vocabulary) && category.vocabulary.empty())
    s.expected("vocabulary", "a name");
  if (category.kind != CategoryColumn::Kind::kDatePart) return categories.push_back(category);
  const std::string name = category.name;
  for (const DatePart part : parts) {
    category.part = part;
    category.name = name + " " + part_name(part);
    categories.push_back(category);
  }
}

}  // namespace hlite::prep
