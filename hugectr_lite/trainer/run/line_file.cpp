#include "hugectr_lite/trainer/run/line_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {

std::string json_number(double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; }

LineFile::LineFile(std::string path, bool append, const char* what)
    : path_(std::move(path)), what_(what), file_(std::fopen(path_.c_str(), append ? "a" : "w")) {
  if (!file_)
    raise<FileError>("{}: cannot open {} for writing: {}", path_, what_, std::strerror(errno));
}

void LineFile::write(std::string_view line) {
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fputc('\n', file_.get()) == EOF || std::fflush(file_.get()) != 0)
    raise<FileError>("{}: cannot write {}: {}", path_, what_, std::strerror(errno));
}

}  // namespace hlite::trainer
