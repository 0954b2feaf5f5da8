#include "hugectr_lite/preparation/engine/block_reader.h"

#include <filesystem>
#include <utility>

namespace hlite::prep {

BlockReader::BlockReader(const PrepOptions& options, RowParser& parser, int lanes,
                         const std::vector<std::string>& first_lines)
    : options_(options), parser_(parser), lanes_(lanes), next_input_(first_lines.size()) {
  // The parser learns of the files that were read before as it did then.
  for (size_t i = 0; i < first_lines.size(); ++i)
    parser.open(options.inputs[i].path, first_lines[i]);
}

void BlockReader::open() {
  const std::string& path = options_.inputs[next_input_].path;
  // A pipe can be opened only once.
  if (std::error_code none;
      std::filesystem::is_regular_file(path, none) && StoredBytes(path).magic() == "PAR1") {
    data::parquet::ParquetFile file(path);
    if (auto columns = parser_.open_columns(file); !columns.empty()) {
      columns_ =
          std::make_shared<ColumnInput>(std::move(file), std::move(columns), lanes_, options_);
      stored_bytes_ = static_cast<int64_t>(std::filesystem::file_size(path));
      return;
    }
  }
  lines_ = std::make_unique<InputFile>(path, parser_.text_form());
  stored_bytes_ = lines_->stored_bytes();
}

bool BlockReader::next(InputBlock& block) {
  if (next_input_ == options_.inputs.size()) return false;
  block.by_columns.reset();
  if (!lines_ && !columns_) open();
  block.file = next_input_;
  block.first_line.reset();
  block.by_columns = columns_;
  block.ends_file = columns_ ? !next_columns(block) : !next_lines(block);
  if (block.ends_file) {
    earlier_inputs_ += stored_bytes_;
    lines_.reset();
    columns_.reset();
    line_parser_.reset();
    ++next_input_;
    return true;
  }
  if (!line_parser_) {
    block.first_line = columns_ ? std::string() : std::string(block.lines.front());
    line_parser_ = parser_.open(lines_ ? lines_->name() : columns_->name(), *block.first_line);
  }
  block.parser = line_parser_;
  return true;
}

bool BlockReader::next_lines(InputBlock& block) {
  block.lines.size = 0;
  block.lines.lines = 0;
  const bool found = lines_->next(block.lines, static_cast<size_t>(options_.block_bytes));
  block.input_done = earlier_inputs_ + lines_->stored_bytes_read();
  block.file_bytes = lines_->bytes_read();
  return found;
}

bool BlockReader::next_columns(InputBlock& block) {
  const bool found = columns_->next(block.columns);
  block.input_done = earlier_inputs_ + columns_->stored_bytes_read();
  return found;
}

}  // namespace hlite::prep
