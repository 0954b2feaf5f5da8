#include "hugectr_lite/preparation/engine/split_files.h"

#include <algorithm>
#include <utility>

#include "data_reader/norm_format.h"
#include "hugectr_lite/core/error.h"

namespace hlite::prep {
namespace {

// The entry for `outputs`, all of them files of data, finished.
data::ManifestFile entry_of(std::string role, std::string name,
                            std::span<const std::unique_ptr<OutputFile>> outputs) {
  data::ManifestFile entry;
  entry.role = std::move(role);
  entry.name = std::move(name);
  Checksum of_digits;
  std::vector<std::string> paths;
  for (const auto& output : outputs) {
    paths.push_back(output->temporary_path());
    entry.bytes += output->bytes();
    of_digits.add(std::as_bytes(std::span<const char>(output->xxh3())));
  }
  entry.xxh3 = outputs.size() == 1 ? outputs[0]->xxh3() : of_digits.sum().digits();
  entry.sample_xxh3 = data::sample_digits(paths);
  return entry;
}

class RawFile final : public SplitFiles {
 public:
  RawFile(std::string role, int64_t rows, const OutputOptions& options)
      : role_(std::move(role)),
        rows_(rows),
        file_(std::make_unique<OutputFile>(options.folder + "/" + raw_name(role_))) {}
  [[nodiscard]] int64_t rows_in_file(int64_t row) const override { return rows_ - row; }
  void write(const EncodedRows& rows) override { file_->write(rows.bytes); }
  WrittenSplit finish() override { return raw_split(role_, std::move(file_)); }

 private:
  std::string role_;
  int64_t rows_;
  std::unique_ptr<OutputFile> file_;
};

class NormSplit final : public SplitFiles {
 public:
  NormSplit(const std::string& role, int64_t rows, const OutputOptions& options,
            const RowShape& shape)
      : role_(role),
        folder_(options.folder),
        rows_(rows),
        rows_per_file_(options.norm_rows_per_file),
        header_{.sum = options.norm_sum,
                .label_dim = 1 + shape.dense - shape.features(),
                .dense_dim = shape.features(),
                .slots = shape.slots} {
    HLITE_CHECK(rows_per_file_ >= 1, "{} rows a file", rows_per_file_);
    make_folder(folder_ + "/" + role_ + "_norm");
    begin_file();  // one even without rows: a list of no files is of no use to a reader
  }
  [[nodiscard]] int64_t rows_in_file(int64_t row) const override {
    return std::min(rows_per_file_ - row % rows_per_file_, rows_ - row);
  }
  void write(const EncodedRows& rows) override {
    if (rows.rows == 0) return;
    if (row_ > 0 && row_ % rows_per_file_ == 0) begin_file();
    split_.outputs.back()->write(rows.bytes);
    row_ += rows.rows;
  }
  WrittenSplit finish() override {
    split_.outputs.back()->finish();
    const std::string name = role_ + "_list.txt";
    split_.file = entry_of(role_, name, split_.outputs);
    std::string list = fmt::format("{}\n", split_.outputs.size());
    for (size_t i = 0; i < split_.outputs.size(); ++i) list += part_name(i) + "\n";
    split_.outputs.push_back(std::make_unique<OutputFile>(folder_ + "/" + name));
    split_.outputs.back()->write(list);
    split_.outputs.back()->finish();
    return std::move(split_);
  }

 private:
  [[nodiscard]] std::string part_name(size_t part) const {
    return fmt::format("{}_norm/{:05}.norm", role_, part);
  }
  void begin_file() {
    if (!split_.outputs.empty()) split_.outputs.back()->finish();
    split_.outputs.push_back(
        std::make_unique<OutputFile>(folder_ + "/" + part_name(split_.outputs.size())));
    header_.records = rows_in_file(row_);
    std::vector<std::byte> bytes;
    data::append_norm_header(header_, bytes);
    split_.outputs.back()->write(bytes);
  }

  std::string role_, folder_;
  int64_t rows_, rows_per_file_;
  int64_t row_ = 0;  // rows written
  data::NormHeader header_;
  WrittenSplit split_;
};

}  // namespace

std::string raw_name(const std::string& role) { return role + ".bin"; }

WrittenSplit raw_split(const std::string& role, std::unique_ptr<OutputFile> file) {
  file->finish();
  WrittenSplit split;
  split.outputs.push_back(std::move(file));
  split.file = entry_of(role, raw_name(role), split.outputs);
  return split;
}

std::unique_ptr<SplitFiles> make_split_files(const std::string& role, int64_t rows,
                                             const OutputOptions& options, const RowShape& shape) {
  if (options.format == OutputFormat::kNorm)
    return std::make_unique<NormSplit>(role, rows, options, shape);
  return std::make_unique<RawFile>(role, rows, options);
}

}  // namespace hlite::prep
