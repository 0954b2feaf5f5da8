// model_delta: lists, verifies, joins and prunes a chain of deltas.
#include <fmt/format.h>

#include <cstdio>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/io/command_line.h"

namespace hlite::prep {
namespace {

using checkpoint::DeltaChain;

struct DeltaArguments {
  std::string command, chain, base, out;
};

void require(const std::string& value, const char* option, const std::string& command) {
  if (value.empty()) raise<ConfigError>("{}: {} is required", command, option);
}

void list(const DeltaChain& chain) {
  for (const auto& link : chain.links())
    std::printf("%s  iteration %lld  %s -> %s  %lld of %lld bytes (%.1f %%)\n", link.path.c_str(),
                static_cast<long long>(link.meta.iteration), link.meta.before.digits().c_str(),
                link.meta.after.digits().c_str(), static_cast<long long>(link.meta.file.bytes),
                static_cast<long long>(link.meta.after.bytes),
                100 * static_cast<double>(link.meta.file.bytes) /
                    static_cast<double>(link.meta.after.bytes));
  std::printf("%s: %zu deltas\n", chain.folder().c_str(), chain.links().size());
}

void run_delta(const DeltaArguments& a) {
  const DeltaChain chain(a.chain);
  if (a.command == "list") return list(chain);
  if (a.command == "verify") {
    chain.verify();
    if (!a.base.empty()) {
      const ReadFile base(checkpoint::weights_in(a.base).path);
      static_cast<void>(chain.first_after(checkpoint::sum_of_file(base), base.name()));
    }
    std::printf("%s: %zu deltas, all as they were written\n", a.chain.c_str(),
                chain.links().size());
    return;
  }
  require(a.base, "--base", a.command);
  const ReadFile base(checkpoint::weights_in(a.base).path);
  if (a.command == "join") {
    require(a.out, "--out", a.command);
    const NamedPath inputs[] = {{"--base", base.name()}, {"CHAIN", a.chain}};
    expect_no_input({"--out", a.out}, inputs);
    const FileSum sum = chain.join(base, a.out);
    std::printf("%s: %lld bytes, checksum %s\n", a.out.c_str(), static_cast<long long>(sum.bytes),
                sum.digits().c_str());
    return;
  }
  const int64_t removed = chain.prune(checkpoint::sum_of_file(base), base.name());
  std::printf("%s: %lld deltas removed\n", a.chain.c_str(), static_cast<long long>(removed));
}

void define(CLI::App& app, DeltaArguments& a) {
  app.add_option("command", a.command,
                 "list: the deltas in order; verify: their checksums, and with --base that they "
                 "begin there; join: write the weights that they lead to from --base; prune: "
                 "remove those that --base contains")
      ->required()
      ->check(CLI::IsMember({"list", "verify", "join", "prune"}));
  app.add_option("CHAIN", a.chain, "The folder that train --save-delta wrote to")
      ->required()
      ->type_name("DIR");
  app.add_option("--base", a.base,
                 "A checkpoint, of which the weights that predict takes count, or "
                 "a weights file")
      ->type_name("MODEL");
  app.add_option("--out", a.out, "The file that join writes")->type_name("FILE.safetensors");
}

}  // namespace
}  // namespace hlite::prep

int main(int argc, char** argv) {
  hlite::prep::DeltaArguments arguments;
  const hlite::prep::ToolDescription description{
      "model_delta", "Lists, verifies, joins and prunes a chain of deltas of a model.",
      "  model_delta list deltas\n"
      "  model_delta join deltas --base model_00 --out model_02.safetensors\n"};
  return hlite::prep::run_tool(
      argc, argv, description, [&](CLI::App& app) { define(app, arguments); },
      [&] { run_delta(arguments); });
}
