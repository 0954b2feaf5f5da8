// DeltaChain: the links of a chain of deltas (delta.h), which lead from old weights to new ones.
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

// Returns the path of the link of an iteration: "<chain>/0000000300".
std::string delta_link(const std::string& chain, int64_t iteration);
// Returns the iterations of the links in the folder `chain`, ascending; none if it does not exist.
std::vector<int64_t> link_iterations(const std::string& chain);

class DeltaChain {
 public:
  // Reads the manifests of the links up to iteration `until`. An empty or missing folder is an
  // empty chain. Throws DataError, naming the link, if a manifest is damaged or a link does not
  // begin where the previous one ends.
  explicit DeltaChain(std::string folder, int64_t until = std::numeric_limits<int64_t>::max());
  [[nodiscard]] const std::vector<DeltaLink>& links() const { return links_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

  // Compares each link's file with the checksum in its manifest. Throws DataError if they differ.
  void verify() const;
  // Returns the index of the link that starts from the weights file with checksum `weights`, or
  // links().size() if the chain ends in that file. Throws DataError if no link starts or ends
  // there; messages call the file `name`.
  [[nodiscard]] size_t first_after(const FileSum& weights, const std::string& name) const;
  // Applies the links to the weights file `base`, writes the result to `path` and returns its
  // checksum. Throws DataError if a file is damaged, or if the result does not have the checksum
  // that the last link's manifest gives.
  FileSum join(const ByteSource& base, const std::string& path) const;
  // Removes the links up to the one that ends in the weights file with checksum `weights`. Returns
  // their number. Throws DataError like first_after(), and FileError if a link cannot be removed.
  int64_t prune(const FileSum& weights, const std::string& name) const;

 private:
  std::string folder_;
  std::vector<DeltaLink> links_;
};

// Returns the checksum of a whole file.
FileSum sum_of_file(const ByteSource& file);

}  // namespace hlite::checkpoint
