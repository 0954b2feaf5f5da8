// What tests of the emulated cuBLASLt share: changes that end with a test, and warnings.
#pragma once

#include <string>
#include <vector>

#include "tests/support/cuda_emulation/cublasLt.h"

namespace hlite::test {

// The emulated library with what a test changed put back at the end.
class MatmulLibraryGuard {
 public:
  MatmulLibraryGuard() : before_(emulation::matmul_library()) {
    emulation::matmul_library().multiplied.clear();
    emulation::matmul_library().searches = 0;
  }
  ~MatmulLibraryGuard() {
    before_.objects = emulation::matmul_library().objects;
    emulation::matmul_library() = before_;
  }
  MatmulLibraryGuard(const MatmulLibraryGuard&) = delete;
  MatmulLibraryGuard& operator=(const MatmulLibraryGuard&) = delete;
  emulation::MatmulLibrary* operator->() const { return &emulation::matmul_library(); }

 private:
  emulation::MatmulLibrary before_;
};

// Warnings go through a plain function, so they are kept here.
inline std::vector<std::string>& warnings() {
  static std::vector<std::string> kept;
  return kept;
}
inline void keep_warning(const char* text) { warnings().emplace_back(text); }

}  // namespace hlite::test
