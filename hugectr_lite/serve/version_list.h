// The versions of a model that are there: numbered folders, and what a chain of deltas makes of
// them.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hlite::serve {

// "3" is the checkpoint in the folder 3/, "3.1200" are its weights after the delta of iteration
// 1200. Newer versions are greater.
struct VersionNumber {
  int64_t version = 0;
  int64_t iteration = 0;  // 0: no delta
  auto operator<=>(const VersionNumber&) const = default;
  [[nodiscard]] std::string text() const;
};
std::optional<VersionNumber> parse_version(const std::string& text);

class VersionList {
 public:
  // `model`: a folder of 1/, 2/, ..., or one model, whose number is 1. `deltas`: a chain that
  // begins at one of them, or empty.
  VersionList(std::string model, std::string deltas);

  // The newest first. One that was not renamed into its place may still be incomplete.
  [[nodiscard]] std::vector<VersionNumber> list() const;
  // Returns true if others than the first may come.
  [[nodiscard]] bool may_grow() const { return numbered_ || !deltas_.empty(); }
  [[nodiscard]] bool numbered() const { return numbered_; }
  // The checkpoint or weights file that a version begins with, and the chain's link that it ends
  // with.
  [[nodiscard]] std::string model_of(const VersionNumber& number) const;
  [[nodiscard]] std::string link_of(const VersionNumber& number) const;
  [[nodiscard]] const std::string& deltas() const { return deltas_; }
  // Returns true if loading a version can tell that its weights are complete.
  [[nodiscard]] bool has_checksum(const VersionNumber& number) const;
  // Differs once a name, a size, a time or a file in the folders that the version consists of does.
  [[nodiscard]] int64_t stamp(const VersionNumber& number) const;

 private:
  const std::string model_, deltas_;
  const bool numbered_;
};

}  // namespace hlite::serve
