#include "hugectr_lite/trainer/run/run_identity.h"

#include <fmt/format.h>

#include <string>

#include "data_reader/manifest.h"
#include "data_reader/record_format.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/checksum.h"
#include "hugectr_lite/core/file.h"
#include "hugectr_lite/core/wide.h"

namespace hlite::trainer {
namespace {

void add_values(const config::JsonNode& node, comm::RunIdentity& identity) {
  using Kind = config::JsonNode::Kind;
  for (const auto& [key, value] : node.members()) add_values(value, identity);
  for (const config::JsonNode& element : node.elements()) add_values(element, identity);
  if (node.kind() == Kind::kObject || node.path() == "solver.threads") return;
  if (node.kind() == Kind::kArray)
    identity.emplace_back(node.path() + " (elements)", fmt::format("{}", node.elements().size()));
  else
    identity.emplace_back(node.path(), node.dump());
}

std::string program_text() {
  Checksum sum;
  read_pieces(ReadFile("/proc/self/exe"), [&](auto piece) { sum.add(piece); });
  return fmt::format("{} {} by {}, checksum {}", kVersion, kBuildType, kCompiler,
                     sum.sum().digits());
}

std::string sample_text(const std::vector<std::string>& files) {
  int64_t bytes = 0;
  for (const std::string& file : files) bytes += ReadFile(file).size();
  return fmt::format("{} bytes, checksum of a sample {}", bytes, data::sample_digits(files));
}

// The data's manifest determines the replicated rows.
void add_data(const config::TrainConfig& config, const char* name, const std::string& source,
              comm::RunIdentity& identity) {
  if (source.empty()) return;
  const std::string path = config.resolve(source);
  const auto files = data::record_format(config.data).files(path);
  const std::string of = fmt::format("data of {}.{}", config.data.name, name);
  identity.emplace_back(of, sample_text(files));
  if (const auto entry = data::find_manifest_of(path, data::DamagedManifest::kPassOver))
    identity.emplace_back(of + ", manifest", sample_text({entry->path}));
}

}  // namespace

comm::RunIdentity run_identity(const config::TrainConfig& config, const Options& options,
                               bool gpu) {
  comm::RunIdentity identity = {{"program", program_text()},
                                {"device", gpu ? "cuda" : "cpu"},
                                {"instructions (HLITE_INSTRUCTIONS)", name_of(instruction_set())}};
  // Results are written by rank 0, but all ranks take part.
  for (const auto& [option, value] : {std::pair{"--save", &options.save},
                                      {"--save-delta", &options.save_delta},
                                      {"--export", &options.export_path},
                                      {"--metrics", &options.metrics},
                                      {"--mllog", &options.mllog},
                                      {"--tensorboard", &options.tensorboard},
                                      {"--report", &options.report}})
    identity.emplace_back(option, value->empty() ? "not given" : "given");
  identity.emplace_back("--grow", options.grow ? "given" : "not given");
  identity.emplace_back("--traffic", options.traffic ? "given" : "not given");
  if (!options.init.empty()) identity.emplace_back("--init", sample_text({options.init}));
  if (!options.resume.empty())
    identity.emplace_back("--resume", sample_text({options.resume + "/manifest.json"}));
  add_values(config.root, identity);
  if (!config.data.follow) add_data(config, "source", config.data.source, identity);
  if (config.solver.evaluates()) add_data(config, "eval_source", config.data.eval_source, identity);
  add_data(config, "test_source", config.data.test_source, identity);
  return identity;
}

}  // namespace hlite::trainer
