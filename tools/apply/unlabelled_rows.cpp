#include "tools/apply/unlabelled_rows.h"

namespace hlite::tools {

namespace {
class LabelledLines final : public LineParser {
 public:
  LabelledLines(std::unique_ptr<const LineParser> inner, std::string label)
      : inner_(std::move(inner)), label_(std::move(label)) {}
  LineKind parse(int64_t number, std::string_view line, const ColumnArrays& out,
                 int64_t row) const override {
    return inner_->parse(number, labelled(line), out, row);
  }
  [[nodiscard]] std::string explain(std::string_view line) const override {
    return inner_->explain(labelled(line)) + " (a label was put in front)";
  }

 private:
  [[nodiscard]] std::string_view labelled(std::string_view line) const {
    thread_local std::string text;
    text = label_;
    return text += line;
  }
  std::unique_ptr<const LineParser> inner_;
  std::string label_;
};

class LabelledRows final : public RowParser {
 public:
  LabelledRows(std::unique_ptr<RowParser> inner, std::string label)
      : inner_(std::move(inner)), layout_(inner_->layout()), label_(std::move(label)) {
    layout_.shortest_row -= static_cast<int>(label_.size());
  }
  [[nodiscard]] const RowLayout& layout() const override { return layout_; }
  [[nodiscard]] std::string slot_name(int slot) const override { return inner_->slot_name(slot); }
  [[nodiscard]] TextForm text_form() const override {
    TextForm form = inner_->text_form();
    if (!form.names.empty()) form.names.erase(form.names.begin());
    if (form.first_hexadecimal > 0) --form.first_hexadecimal;
    return form;
  }
  [[nodiscard]] std::unique_ptr<const LineParser> open(const std::string& file,
                                                       std::string_view first_line) override {
    return std::make_unique<LabelledLines>(inner_->open(file, first_line), label_);
  }

 private:
  std::unique_ptr<RowParser> inner_;
  RowLayout layout_;
  std::string label_;
};
}  // namespace

std::unique_ptr<RowParser> with_label(std::unique_ptr<RowParser> parser, std::string label) {
  return std::make_unique<LabelledRows>(std::move(parser), std::move(label));
}

}  // namespace hlite::tools
