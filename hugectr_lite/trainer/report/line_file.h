// Lines of JSON in a file that others read while it grows: flushed line by line.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hlite::trainer {

// Shortest text that reads back as the same double; "null" for NaN and infinity.
std::string json_number(double x);
inline std::string json_number(const std::optional<double>& x) {
  return x ? json_number(*x) : "null";
}

class LineFile {
 public:
  // `what` names it in errors: "the metrics file". Throws FileError when it cannot be opened.
  LineFile(std::string path, bool append, const char* what);
  // Throws FileError.
  void write(std::string_view line);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  const char* what_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace hlite::trainer
