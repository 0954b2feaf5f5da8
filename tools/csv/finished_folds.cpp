#include "tools/csv/finished_folds.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/file.h"
#include "tools/io/output_file.h"

namespace hlite::tools {

FinishedFolds::FinishedFolds(const std::string& folder, const nlohmann::ordered_json& run)
    : path_(folder + "/.folds"), run_(run.dump()) {
  if (!std::filesystem::exists(path_)) return;
  constexpr int64_t kMaxStateBytes = int64_t{1} << 20;
  const auto saved = nlohmann::json::parse(read_text(ReadFile(path_), kMaxStateBytes), nullptr,
                                           /*exceptions=*/false);
  if (!saved.is_object()) return;
  const auto saved_run = saved.find("run"), finished = saved.find("finished");
  if (saved_run != saved.end() && *saved_run == run_ && finished != saved.end() &&
      finished->is_number_unsigned())
    finished_ = finished->get<int64_t>();
}

void FinishedFolds::add(int64_t fold) {
  finished_ = fold + 1;
  OutputFile file(path_);
  file.write(nlohmann::json{{"run", run_}, {"finished", finished_}}.dump());
  file.commit();
}

void FinishedFolds::remove() { remove_path(path_); }

}  // namespace hlite::tools
