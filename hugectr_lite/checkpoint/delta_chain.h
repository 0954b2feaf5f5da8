// DeltaChain: the links of a chain of deltas (delta.h) in order, and the model that they lead to.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/checkpoint/delta.h"

namespace hlite::checkpoint {

struct DeltaLink {
  std::string path;
  DeltaMeta meta;
};

// The place of a link in its chain, and the iterations of the links that are there, in order.
std::string delta_link(const std::string& chain, int64_t iteration);
std::vector<int64_t> link_iterations(const std::string& chain);

class DeltaChain {
 public:
  // Reads the manifests of the links up to iteration `until`. Throws DataError, naming the link,
  // where one is damaged or does not begin where the one before it ends. A folder without links, or
  // none, is an empty chain.
  explicit DeltaChain(std::string folder, int64_t until = std::numeric_limits<int64_t>::max());
  [[nodiscard]] const std::vector<DeltaLink>& links() const { return links_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Compares each file with the sum in its manifest. Throws DataError.
  void verify() const;
  // The first link after a weights file of that sum, or links().size() if the chain ends in it.
  // Throws DataError if the chain does not know it; `name` stands for the file in messages.
  [[nodiscard]] size_t first_after(const FileSum& weights, const std::string& name) const;
  // Writes the weights file that the links lead to from `base`, a weights file, and returns its
  // sum. Throws DataError if a file is damaged, or what comes of them is not what the last link
  // says.
  FileSum join(const ByteSource& base, const std::string& path) const;
  // Removes the links up to the one that ends in a weights file of that sum; returns how many.
  int64_t prune(const FileSum& weights, const std::string& name) const;

 private:
  std::string folder_;
  std::vector<DeltaLink> links_;
};

// The sum of all bytes of a file.
FileSum sum_of_file(const ByteSource& file);

}  // namespace hlite::checkpoint
