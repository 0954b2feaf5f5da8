// A config's layers as lines of JSON.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace hlite::prep {

using TensorNames = std::vector<std::string>;

// The names as elements of a list of JSON.
std::string quoted(const TensorNames& names);

class LayerText {
 public:
  [[nodiscard]] std::string text() && { return std::move(text_); }

 protected:
  template <typename... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    text_ += "    {" + fmt::format(text, std::forward<Args>(args)...) + "},\n";
  }
  // `more`: further keys of fc_param.
  void inner_product(const std::string& bottom, const std::string& top, int64_t width = 1,
                     const char* more = "");
  void dropout(const std::string& bottom, const std::string& top, double rate);
  void reshape(const std::string& bottom, const std::string& top, int64_t width);
  void reshape(const std::string& bottom, const std::string& top, int64_t time_step, int64_t width);
  void join(const char* type, const TensorNames& bottoms, const std::string& top);
  // A layer without keys of its own.
  void plain(const char* type, const std::string& bottom, const std::string& top);

 private:
  std::string text_;
};

}  // namespace hlite::prep
