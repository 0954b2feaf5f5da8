#include "hugectr_lite/preparation/criteo/criteo_rows.h"

#include <fmt/core.h>

#include "data_reader/criteo/criteo_record.h"
#include "hugectr_lite/preparation/criteo/criteo_parquet.h"

namespace hlite::prep {
namespace {

class CriteoRows final : public RowParser {
 public:
  CriteoRows(uint32_t key_range, bool labelled) : key_range_(key_range), labelled_(labelled) {
    if (!labelled) layout_.shortest_row -= 2;  // the label and its tab
  }
  [[nodiscard]] const RowLayout& layout() const override { return layout_; }
  [[nodiscard]] std::string slot_name(int slot) const override {
    return fmt::format("C{}", slot + 1);
  }
  // Columns by their usual names, or 40 of any names; tokens may be numbers.
  [[nodiscard]] TextForm text_form() const override {
    TextForm form{.separator = '\t'};
    if (labelled_) form.names.emplace_back("label");
    for (int k = 1; k <= criteo::kDense; ++k) form.names.push_back(fmt::format("I{}", k));
    form.first_hexadecimal = std::ssize(form.names);
    for (int k = 1; k <= criteo::kSlots; ++k) form.names.push_back(fmt::format("C{}", k));
    return form;
  }
  [[nodiscard]] std::vector<FileColumn> open_columns(
      const data::parquet::ParquetFile& file) const override {
    if (!labelled_) return {};
    return criteo_columns_of(file, text_form(), key_range_);
  }
  [[nodiscard]] std::unique_ptr<const LineParser> open(const std::string&,
                                                       std::string_view) override {
    return criteo::make_line_parser(key_range_, labelled_);
  }

 private:
  RowLayout layout_{
      .dense = criteo::kDense, .slots = criteo::kSlots, .shortest_row = criteo::kColumns + 1};
  uint32_t key_range_;
  bool labelled_;
};

}  // namespace

std::unique_ptr<RowParser> make_criteo_rows(uint32_t key_range, bool labelled) {
  return std::make_unique<CriteoRows>(key_range, labelled);
}

}  // namespace hlite::prep
