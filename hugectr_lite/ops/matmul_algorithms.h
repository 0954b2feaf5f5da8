// The file that remembers which algorithm of cuBLASLt multiplies a shape fastest, and whether its
// epilogue is to be used.
//
// Timings differ a little from run to run, and another algorithm may round otherwise: so the file
// is also what makes runs on one machine give the same bits. The first run that meets a shape
// chooses, all later ones follow. It is text, to be deleted freely:
//
//   hugectr_lite matmul algorithms 3
//   <key> <verdict> <the library's 64 bytes as 8 hexadecimal numbers, by commas> <checksum>
//
// A key holds no blank and says all that a choice depends on. A verdict is "take", or why a product
// with an epilogue is made plainly, its epilogue by a kernel, or all of it: "slower", "differs" or
// "varies".
// Lines of other devices and versions stay. A file of an earlier form, or with any line that is not
// of this one, counts as absent, with a warning, and is written anew.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace hlite::ops {

using MatmulAlgorithm = std::array<uint64_t, 8>;  // cublasLtMatmulAlgo_t, to be passed on as it is

// The verdict on a product with an epilogue. A plain product is always taken.
enum class MatmulVerdict {
  kTake,
  kSlower,   // than the plain product and a kernel, or than a kernel alone
  kDiffers,  // from these by more than rounding
  kVaries,   // from run to run
};

// An algorithm to take; for another verdict the one that it was passed on, or zeros.
struct MatmulChoice {
  MatmulAlgorithm algorithm{};
  MatmulVerdict verdict = MatmulVerdict::kTake;
  bool operator==(const MatmulChoice&) const = default;
};

// The file, locked against changes: other threads and processes that make one for the same
// path wait until this one is gone. Nothing here throws for what is wrong with the file.
class LockedAlgorithms {
 public:
  using Warn = std::function<void(const std::string&)>;

  // Makes the folder where there is none. `warn` must live as long.
  LockedAlgorithms(const std::string& path, const Warn& warn);
  ~LockedAlgorithms();
  LockedAlgorithms(const LockedAlgorithms&) = delete;
  LockedAlgorithms& operator=(const LockedAlgorithms&) = delete;

  // Returns true if put() has a chance.
  [[nodiscard]] bool writable() const { return lock_ >= 0; }
  // Null for a key that is not there.
  [[nodiscard]] const MatmulChoice* find(const std::string& key) const;
  // Writes the file with this entry under a temporary name and renames it into place. Returns
  // false, after a warning, if that fails; the file is then as before.
  [[nodiscard]] bool put(const std::string& key, const MatmulChoice& choice);

 private:
  void read();

  std::string path_;
  const Warn& warn_;
  int lock_ = -1;
  std::map<std::string, MatmulChoice> entries_;
};

}  // namespace hlite::ops
