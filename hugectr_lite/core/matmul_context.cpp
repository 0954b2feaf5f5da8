#include "hugectr_lite/core/matmul_context.h"

#include <cstdlib>

namespace hlite {
namespace {

// The value of an environment variable that holds an absolute path, as the XDG rules ask.
std::string folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  return value && value[0] == '/' ? value : "";
}

}  // namespace

MatmulContext::MatmulContext(const cuda::OpTable& table, const cuda::MatmulOptions& options)
    : table_(&table) {
  table.matmul_create(&context_, options);
}

MatmulContext::~MatmulContext() {
  cuda::Failure ignored;  // a destructor has nobody to tell
  if (context_) (void)table_->matmul_destroy.entry(&ignored, context_);
}

std::string default_algorithm_file() {
  std::string folder = folder_in("XDG_CACHE_HOME");
  if (folder.empty()) {
    folder = folder_in("HOME");
    if (folder.empty()) return "";
    folder += "/.cache";
  }
  return folder + "/hugectr_lite/matmul_algorithms.txt";
}

}  // namespace hlite
