#include "hugectr_lite/trainer/report/line_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/output_place.h"

namespace hlite::trainer {

std::string json_number(double x) { return std::isfinite(x) ? fmt::format("{}", x) : "null"; }

LineFile::LineFile(std::string path, bool append, const char* what)
    : path_(std::move(path)), what_(what) {
  FileDescriptor fd = open_output(path_, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC));
  if (fd.get() >= 0) file_.reset(fdopen(fd.release(), append ? "a" : "w"));
  if (!file_)
    raise<FileError>("{}: cannot open {} for writing: {}", path_, what_, std::strerror(errno));
}

void LineFile::write(std::string_view line) {
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fputc('\n', file_.get()) == EOF || std::fflush(file_.get()) != 0)
    raise<FileError>("{}: cannot write {}: {}", path_, what_, std::strerror(errno));
}

}  // namespace hlite::trainer
