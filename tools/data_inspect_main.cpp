#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/preparation/inspect/fit_check.h"
#include "hugectr_lite/preparation/inspect/inspection.h"
#include "hugectr_lite/preparation/io/command_line.h"

namespace hlite::prep {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string config, role, rows;
  std::vector<std::string> overrides;
  std::optional<int64_t> batch;
  bool json = false;
  InspectOptions inspect;
};

int64_t parse_rows(const std::string& text) {
  if (text == "all") return INT64_MAX;
  const auto rows = parse_number<int64_t>(text);
  if (!rows || *rows < 1) {
    raise<ConfigError>("--rows: expected a number or all, found \"{}\"", text);
  }
  return *rows;
}

std::string fit_text(const FitCase& fit, const FitReport& report) {
  std::string text =
      fmt::format("fit as {}: {}\n", role_name(fit),
                  report.fits() ? "file and config fit" : "file and config do NOT fit");
  for (const Finding& f : report.faults) {
    text += fmt::format("  {}: {}\n", f.fault, f.message);
    if (!f.advice.empty()) text += fmt::format("    {}\n", f.advice);
  }
  for (const std::string& note : report.notes) text += fmt::format("  note: {}\n", note);
  return text;
}

nlohmann::ordered_json fit_json(const FitCase& fit, const FitReport& report) {
  nlohmann::ordered_json json = {{"role", role_name(fit)}, {"fits", report.fits()}};
  json["faults"] = nlohmann::ordered_json::array();
  for (const Finding& f : report.faults)
    json["faults"].push_back({{"fault", f.fault}, {"message", f.message}, {"advice", f.advice}});
  json["notes"] = report.notes;
  return json;
}

class Session {
 public:
  explicit Session(Arguments arguments) : arguments_(std::move(arguments)) {}

  void run() {
    if (!arguments_.config.empty()) {
      config_ = config::load_train_config(arguments_.config, arguments_.overrides);
      slot_rows_ = slot_rows_of(*config_);
      if (arguments_.files.empty()) {
        arguments_.files = {config_->resolve(config_->data.source)};
        if (!config_->data.eval_source.empty())
          arguments_.files.push_back(config_->resolve(config_->data.eval_source));
      }
      if (!arguments_.batch) arguments_.inspect.batch = config_->solver.batchsize;
    }
    if (arguments_.files.empty()) raise<ConfigError>("files or --config are required");
    if (arguments_.batch) arguments_.inspect.batch = *arguments_.batch;
    for (const std::string& file : arguments_.files) inspect_path(file);
    using Json = nlohmann::ordered_json;
    if (arguments_.json)
      std::printf("%s\n", json_.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
    std::fflush(stdout);
    if (misfits_ > 0) {
      raise<DataError>("{} of {} files do not fit {}", misfits_, arguments_.files.size(),
                       arguments_.config);
    }
  }

 private:
  [[nodiscard]] config::Split role_of(const std::string& file) const {
    if (!arguments_.role.empty())
      return arguments_.role == "eval" ? config::Split::kEval : config::Split::kTrain;
    if (config_->data.eval_source.empty()) return config::Split::kTrain;
    std::error_code error;
    const std::string eval = config_->resolve(config_->data.eval_source);
    const bool is_eval = file == eval || std::filesystem::equivalent(file, eval, error);
    return is_eval && file != config_->resolve(config_->data.source) ? config::Split::kEval
                                                                     : config::Split::kTrain;
  }

  void inspect_path(const std::string& file) {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    if (config_ == nullptr || std::filesystem::exists(file)) {
      const Inspection inspection =
          inspect_file(file, config_.get(), slot_rows_, arguments_.inspect);
      if (arguments_.json) {
        json = report_json(inspection);
      } else {
        std::printf("%s", report_text(inspection).c_str());
      }
    }
    if (config_ != nullptr) {
      const FitCase fit{*config_, role_of(file), file, slot_rows_, arguments_.inspect.rows};
      const FitReport report = check_fit(fit);
      misfits_ += !report.fits();
      if (arguments_.json) {
        json["fit"] = fit_json(fit, report);
      } else {
        std::printf("%s", fit_text(fit, report).c_str());
      }
    }
    if (!arguments_.json) std::printf("\n");
    json_.push_back(std::move(json));
  }

  Arguments arguments_;
  std::unique_ptr<config::TrainConfig> config_;
  std::vector<int64_t> slot_rows_;
  int64_t misfits_ = 0;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

}  // namespace
}  // namespace hlite::prep

int main(int argc, char** argv) {
  using namespace hlite;
  prep::Arguments arguments;
  const prep::ToolDescription description{
      "data_inspect",
      "Says what a file is (Criteo TSV, CSV, raw, multi-hot raw, Norm, NumPy, manifest, ...; gzip "
      "and zstd too), how sure that is, and what is in it: schema, statistics of each column, "
      "skew. With --config it says whether file and config fit and, if not, what would; the exit "
      "code is 3 when they do not.",
      "  data_inspect data/train.bin                          # by the manifest in its folder\n"
      "  data_inspect --config configs/demo.json              # source and eval_source\n"
      "  data_inspect day_0.gz --rows 100000\n"};
  return prep::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("files", arguments.files, "Files; none: those that the config names");
        app.add_option("--config", arguments.config, "A training config to compare with");
        app.add_option("--set", arguments.overrides, "Override a value of it: PATH=VALUE")
            ->allow_extra_args(false);
        app.add_option("--as", arguments.role,
                       "Compare as train or eval data (default: as the config names the file)")
            ->check(CLI::IsMember({"train", "eval"}));
        app.add_option("--rows", arguments.rows,
                       "Most rows to look at, or all (default: 1000000); of raw data in blocks "
                       "spread over the file, of other data the first")
            ->type_name("N|all");
        app.add_option("--batch", arguments.batch,
                       "Samples whose distinct rows are counted (default: the config's batchsize, "
                       "else 65536)")
            ->check(whole_number(1));
        app.add_flag("--json", arguments.json, "Print JSON: a list with an object a file");
      },
      [&] {
        if (!arguments.rows.empty()) arguments.inspect.rows = prep::parse_rows(arguments.rows);
        prep::Session(std::move(arguments)).run();
      });
}
