// The file that remembers which algorithm of cuBLASLt multiplies a shape fastest.
//
// Timings differ a little from run to run, and another algorithm may round otherwise: so the file
// is also what makes runs on one machine give the same bits. The first run that meets a shape
// chooses, all later ones follow. It is text, to be deleted freely:
//
//   hugectr_lite matmul algorithms 1
//   <key> <the library's 64 bytes as 8 hexadecimal numbers, by commas> <checksum>
//
// A key holds no blank and says all that a choice depends on. Lines of other devices and versions
// stay. A file with any line that is not of this form counts as absent, with a warning, and is
// written anew.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace hlite::ops {

using MatmulAlgorithm = std::array<uint64_t, 8>;  // cublasLtMatmulAlgo_t, to be passed on as it is

// The file, while nobody else changes it: other threads and processes that make one for the same
// path wait until this one is gone. Nothing here throws for what is wrong with the file.
class LockedAlgorithms {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Makes the folder where there is none. `warn` must live as long.
  LockedAlgorithms(const std::string& path, const Warn& warn);
  ~LockedAlgorithms();
  LockedAlgorithms(const LockedAlgorithms&) = delete;
  LockedAlgorithms& operator=(const LockedAlgorithms&) = delete;

  // Whether put() has a chance.
  [[nodiscard]] bool writable() const { return lock_ >= 0; }
  // Null for a key that is not there.
  [[nodiscard]] const MatmulAlgorithm* find(const std::string& key) const;
  // Writes the file with this entry beside the old one and renames it into place. False, after a
  // warning, where that fails; the file is then as before.
  [[nodiscard]] bool put(const std::string& key, const MatmulAlgorithm& algorithm);

 private:
  void read();

  std::string path_;
  const Warn& warn_;
  int lock_ = -1;
  std::map<std::string, MatmulAlgorithm> entries_;
};

}  // namespace hlite::ops
