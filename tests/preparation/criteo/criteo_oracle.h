// Criteo rows that exercise the whole format, and a plain implementation of the recipes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::prep {

// Rows with everything the format allows: missing values, negative integers, upper case, short
// tokens, tokens that collide modulo the range, CRLF.
inline std::string awkward_rows(uint64_t seed, int rows, bool final_newline = true) {
  std::string text;
  uint64_t counter = 0;
  const auto draw = [&](uint32_t below) { return random::word(seed, 9, counter++) % below; };
  for (int row = 0; row < rows; ++row) {
    text += std::to_string(draw(2));
    for (int k = 0; k < 13; ++k) {
      text += '\t';
      if (draw(5) > 0) text += std::to_string(static_cast<int>(draw(2000)) - 100);
    }
    for (int k = 0; k < 26; ++k) {
      text += '\t';
      const uint32_t token = draw(static_cast<uint32_t>(3 + 7 * k)) * 20000000u;
      if (draw(8) > 0) text += fmt::format(fmt::runtime(draw(2) ? "{:x}" : "{:08X}"), token);
    }
    text += row % 3 == 0 ? "\r\n" : "\n";
  }
  if (!final_newline) text.pop_back();
  return text;
}

// A row parsed by the MLPerf recipe, before ids are assigned.
struct OracleRow {
  uint32_t label = 0;
  std::array<uint32_t, 13> dense{};
  std::array<uint64_t, 26> key{};
  std::array<bool, 26> missing{};
};

// Parses naively: one string per field.
inline std::vector<OracleRow> oracle_rows(const std::string& text, uint64_t range = 40000000) {
  std::vector<OracleRow> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.back() == '\r') line.pop_back();
    std::vector<std::string> fields(1);
    for (const char c : line) c == '\t' ? void(fields.emplace_back()) : fields.back().push_back(c);
    REQUIRE(fields.size() == 40);
    OracleRow& row = rows.emplace_back();
    row.label = fields[0] == "1";
    for (size_t k = 0; k < 13; ++k) {
      const std::string& field = fields[1 + k];
      const int x = field.empty() ? 0 : std::stoi(field);
      row.dense[k] = x < 0 ? 0u : static_cast<uint32_t>(x);
    }
    for (size_t k = 0; k < 26; ++k) {
      const std::string& token = fields[14 + k];
      row.missing[k] = token.empty();
      row.key[k] = (token.empty() ? 0 : std::stoull(token, nullptr, 16)) % range;
    }
  }
  return rows;
}

struct OracleRecipe {
  uint64_t hash = 0;
  uint32_t min_count = 0;
  bool by_frequency = false;
};

// Ids of one column, whose first `train` rows are training rows.
struct OracleColumn {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> counts;  // of each id, in training rows
  int64_t dropped = 0;           // training rows
};

inline OracleColumn oracle_column(const std::vector<uint64_t>& keys, size_t train,
                                  const OracleRecipe& recipe) {
  OracleColumn column;
  std::map<uint64_t, uint32_t> id_of, count_of;
  std::vector<uint64_t> order;  // of first appearance
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!count_of.contains(keys[i])) order.push_back(keys[i]);
    count_of[keys[i]] += i < train;
  }
  if (recipe.by_frequency) {
    std::stable_sort(order.begin(), order.end(),
                     [&](uint64_t a, uint64_t b) { return count_of[a] > count_of[b]; });
  }
  uint32_t size = recipe.min_count > 0 ? 1 : 0;
  for (const uint64_t key : order) {
    if (recipe.hash > 0) {
      // MurmurHash3's finaliser; key 0 is id 0.
      uint64_t x = key;
      x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
      x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
      x ^= x >> 33;
      id_of[key] = key == 0 ? 0 : static_cast<uint32_t>(x % recipe.hash);
      size = static_cast<uint32_t>(recipe.hash);
    } else if (recipe.min_count > 0 && count_of[key] < recipe.min_count) {
      id_of[key] = 0;
      column.dropped += count_of[key];
    } else {
      id_of[key] = size++;
    }
  }
  column.counts.resize(size);
  for (size_t i = 0; i < keys.size(); ++i) {
    column.ids.push_back(id_of[keys[i]]);
    column.counts[column.ids.back()] += i < train;
  }
  return column;
}

// The bytes of the raw files, row after row, and what the manifest says of the columns.
struct OracleData {
  std::vector<std::string> records;
  std::vector<OracleColumn> columns;
  [[nodiscard]] std::string bytes(size_t first, size_t count) const {
    std::string all;
    for (size_t i = first; i < first + count; ++i) all += records[i];
    return all;
  }
};

inline OracleData oracle_data(const std::vector<OracleRow>& rows, size_t train,
                              const OracleRecipe& recipe = {}) {
  OracleData data;
  for (size_t k = 0; k < 26; ++k) {
    std::vector<uint64_t> keys;
    for (const OracleRow& row : rows) keys.push_back(row.key[k]);
    data.columns.push_back(oracle_column(keys, train, recipe));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string& record = data.records.emplace_back();
    const auto put = [&](uint32_t word) {
      char bytes[4];
      std::memcpy(bytes, &word, 4);
      record.append(bytes, 4);
    };
    put(rows[i].label);
    for (const uint32_t x : rows[i].dense) put(x);
    for (const OracleColumn& column : data.columns) put(column.ids[i]);
  }
  return data;
}

}  // namespace hlite::prep
