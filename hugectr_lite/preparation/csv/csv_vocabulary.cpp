#include "hugectr_lite/preparation/csv/csv_vocabulary.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/preparation/csv/csv_rows.h"
#include "hugectr_lite/preparation/engine/prep_options.h"
#include "hugectr_lite/preparation/engine/saved_vocabulary.h"
#include "hugectr_lite/preparation/engine/slot_tables.h"
#include "hugectr_lite/preparation/io/input_file.h"

namespace hlite::prep {

namespace {

// Returns the name of a file after a column: nothing that a file system or a shell could trip over.
std::string file_name(size_t slot, const std::string& column) {
  std::string name = fmt::format("vocabulary/{:02}_", slot);
  for (const char c : column.substr(0, 64)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.';
    name += plain ? c : '_';
  }
  return name + ".txt";
}

// A category met in a block, not yet known to be found.
struct NewCategory {
  uint64_t key;
  size_t begin, size;  // of its text, in RowBlock::text
};

struct RowBlock {
  LineBlock lines;
  std::vector<std::vector<NewCategory>> candidates;  // per table, in the order of the rows
  std::string text;
};

class TableVocabulary {
 public:
  // `slots`: the columns that share it.
  TableVocabulary(const std::string& folder, const CsvSchema& schema, std::vector<int> slots,
                  ReadFile keys)
      : slots_(std::move(slots)),
        keys_(std::move(keys)),
        ids_(keys_.size() / static_cast<int64_t>(sizeof(uint64_t))),
        found_(kFoundSlots) {
    const CategoryColumn& first = schema.categorical[static_cast<size_t>(slots_.front())];
    name_ = first.vocabulary.empty() ? first.name : first.vocabulary;
    result_.name = file_name(static_cast<size_t>(slots_.front()), name_);
    result_.categories = std::max<int64_t>(ids_ - 1, 0);
    result_.file = std::make_unique<OutputFile>(folder + "/" + result_.name);
    load();
  }

  // Takes over the lines of an older vocabulary, whose ids are the first of this one.
  void begin_with(const std::string& path) {
    constexpr size_t kReadAtOnce = 1 << 20;
    InputFile old(path);
    LineBlock block;
    while (old.next(block, kReadAtOnce))
      block.for_each_row([&](std::string_view line, int64_t) {
        const std::string text = category_of_line(line);
        const uint64_t key = token_key(text);
        if (uint64_t& found = found_[key % kFoundSlots]; found == 0) found = key;
        result_.file->write(line);
        result_.file->write("\n");
        if (result_.categories <= Vocabulary::kSmall) result_.if_small.push_back(text);
        ++next_;
        return true;
      });
    loaded_.clear();
    load();
  }

  [[nodiscard]] const std::vector<int>& slots() const { return slots_; }
  [[nodiscard]] bool complete() const { return next_ >= ids_; }
  // Certainly found before: most tokens are frequent ones.
  [[nodiscard]] bool found(uint64_t key) const { return found_[key % kFoundSlots] == key; }

  // Not at the same time as found().
  void take(uint64_t key, std::string_view text) {
    if (complete() || key != expected()) return;
    found_[key % kFoundSlots] = key;
    std::string line;
    for (const char c : text)
      line += c == '\\' ? "\\\\" : c == '\r' ? "\\r" : c == '\n' ? "\\n" : std::string(1, c);
    result_.file->write(line + "\n");
    if (result_.categories <= Vocabulary::kSmall) result_.if_small.emplace_back(text);
    ++next_;
    load();
  }

  Vocabulary finish() {
    if (!complete())
      raise<DataError>(
          "column {}: found the text of {} of {} categories: a training file has changed since it "
          "was read",
          name_, next_ - 1, result_.categories);
    result_.file->finish();
    return std::move(result_);
  }

 private:
  static constexpr size_t kFoundSlots = 1 << 16;
  static constexpr int64_t kLoaded = 1 << 12;  // keys read at a time

  [[nodiscard]] uint64_t expected() const { return loaded_[static_cast<size_t>(next_ % kLoaded)]; }
  // Sees to it that the expected key is there.
  void load() {
    if (complete() || (next_ % kLoaded != 0 && !loaded_.empty())) return;
    const int64_t first = next_ / kLoaded * kLoaded;
    loaded_.resize(static_cast<size_t>(std::min(kLoaded, ids_ - first)));
    keys_.read(first * static_cast<int64_t>(sizeof(uint64_t)),
               std::as_writable_bytes(std::span(loaded_)));
  }

  std::vector<int> slots_;
  std::string name_;
  ReadFile keys_;
  int64_t ids_;
  int64_t next_ = 1;  // id whose text is looked for
  std::vector<uint64_t> loaded_;
  std::vector<uint64_t> found_;
  Vocabulary result_;
};

void find_candidates(const CsvSchema& schema, const std::vector<TableVocabulary>& tables,
                     RowBlock& block) {
  block.text.clear();
  block.candidates.resize(tables.size());
  for (auto& candidates : block.candidates) candidates.clear();
  CsvFields fields;
  const int64_t needed = schema.columns_needed();
  block.lines.for_each_row([&](std::string_view row, int64_t line) {
    if ((line == 1 && schema.header) || is_skipped_line(schema, row)) return true;
    // Bad rows were passed over, or there would be no ids.
    if (split_csv(dialect_of(schema), row, fields) || std::ssize(fields.fields) < needed)
      return true;
    for (size_t t = 0; t < tables.size(); ++t) {
      if (tables[t].complete()) continue;
      for (const int slot : tables[t].slots()) {
        const auto visit = [&](std::string_view token) {
          const uint64_t key = token_key(token);
          if (tables[t].found(key)) return;
          block.candidates[t].push_back({key, block.text.size(), token.size()});
          block.text += token;
        };
        for_each_token(schema.categorical[static_cast<size_t>(slot)], fields.fields, visit);
      }
    }
    return true;
  });
}

}  // namespace

std::vector<Vocabulary> write_vocabularies(const std::vector<std::string>& train,
                                           const CsvSchema& schema,
                                           std::vector<ReadFile> keys_of_ids,
                                           const std::string& folder, size_t block_bytes,
                                           ThreadPool& pool,
                                           const std::vector<std::string>& continued) {
  const auto slots =
      slots_of_tables(static_cast<int>(schema.categorical.size()), schema.slot_tables());
  HLITE_CHECK(keys_of_ids.size() == slots.size(), "{} key files, {} tables", keys_of_ids.size(),
              slots.size());
  if (!keys_of_ids.empty()) make_folder(folder + "/vocabulary");
  std::vector<TableVocabulary> tables;
  for (size_t t = 0; t < slots.size(); ++t)
    tables.emplace_back(folder, schema, slots[t], std::move(keys_of_ids[t]));
  for (size_t t = 0; t < slots.size() && !continued.empty(); ++t)
    tables[t].begin_with(continued[static_cast<size_t>(slots[t].front())]);
  const auto complete = [&] {
    return std::all_of(tables.begin(), tables.end(), [](const auto& t) { return t.complete(); });
  };

  std::vector<RowBlock> window(static_cast<size_t>(pool.threads()) * 2);
  for (const std::string& path : train) {
    InputFile file(path, text_form_of(schema));
    CsvSchema of_file = schema;
    while (!complete()) {
      if (InterruptGuard::requested()) throw Interrupted();
      int64_t blocks = 0;
      while (blocks < static_cast<int64_t>(window.size()) &&
             file.next(window[static_cast<size_t>(blocks)].lines, block_bytes)) {
        const LineBlock& lines = window[static_cast<size_t>(blocks++)].lines;
        if (lines.first_line == 1) of_file = resolved_schema(schema, file.name(), lines.front());
      }
      if (blocks == 0) break;
      pool.run(blocks, [&](int64_t i, int) {
        find_candidates(of_file, tables, window[static_cast<size_t>(i)]);
      });
      pool.run(std::ssize(tables), [&](int64_t t, int) {
        for (int64_t i = 0; i < blocks; ++i) {
          const RowBlock& block = window[static_cast<size_t>(i)];
          for (const NewCategory& c : block.candidates[static_cast<size_t>(t)])
            tables[static_cast<size_t>(t)].take(
                c.key, std::string_view(block.text).substr(c.begin, c.size));
        }
      });
    }
  }
  std::vector<Vocabulary> vocabularies;
  for (TableVocabulary& table : tables) vocabularies.push_back(table.finish());
  return vocabularies;
}

}  // namespace hlite::prep
