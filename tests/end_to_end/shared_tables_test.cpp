// `slot_tables`: slots of an embedding layer that look up one table.
#include <filesystem>
#include <regex>

#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using Changes = std::vector<std::string>;

// Slots 0 and 2 share table 0, slot 1 has table 1.
std::string shared_hparam(const std::string& more = "") {
  return R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"slot_tables":[0,1,0],)"
         R"("slot_size_array":[300,5,300])" +
         more + "}";
}
const std::string kAdaGradLocal =
    R"(layers.emb.optimizer={"type":"AdaGrad","update_type":"Local",)"
    R"("adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})";

ProgramResult run_with(const SmallRun& run, Changes arguments, const Changes& changes,
                       bool on_gpu = false) {
  arguments.insert(arguments.end(), {"--quiet", "--device", on_gpu ? "cuda" : "cpu"});
  auto command = run.command(with_changes(std::move(arguments), changes));
  command.insert(command.begin(),
                 {"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN});
  return run_program(command);
}

Tensors trained(const SmallRun& run, const Changes& changes, bool on_gpu = false,
                Changes arguments = {}) {
  arguments.insert(arguments.end(), {"--save", run / "out"});
  REQUIRE(run_with(run, arguments, changes, on_gpu).code == 0);
  return everything(run / "out");
}

}  // namespace

TEST_CASE("slots share a table on any ranks and devices, however rows are spread",
          "[slow][release-only]") {
  const SmallRun run;
  for (const std::string& optimizer : {kAdaGradLocal, std::string()}) {  // or Adam, of every row
    const Changes base = {"solver.max_iter=12", optimizer.empty() ? "solver.seed=7" : optimizer};
    const auto with = [&](const Changes& more) {
      Changes all = base;
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const Tensors one = trained(run, with({shared_hparam()}));
    CHECK(one.at("emb.table_0").size() == 300 * 4);
    CHECK(one.at("emb.table_1").size() == 5 * 4);
    CHECK(one.count("emb.table_2") == 0);
    check_close_tensors(trained(run, with({shared_hparam()}), true), one, 2e-5);
    for (const char* sharding : {"frequency", "slot", "row", "replicate", "auto"})
      for (const char* ranks : {"[[0,1]]", "[[0,1],[2,3]]"}) {
        INFO(sharding << " " << ranks << " " << optimizer);
        const std::string spread = shared_hparam(fmt::format(R"(,"sharding":"{}")", sharding));
        check_close_tensors(trained(run, with({spread, gpu(ranks)})), one, 2e-5);
      }
    check_close_tensors(
        trained(run, with({shared_hparam(), gpu("[[0,1]]"), "solver.input=broadcast"})), one, 2e-5);
    check_close_tensors(
        trained(run, with({shared_hparam(), "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot",
                           gpu("[[0,1,2,3]]")})),
        one, 2e-5);
  }
}

TEST_CASE("hashed tables that slots share hold the trained rows of full ones") {
  const SmallRun run;
  const Changes base = {"solver.max_iter=3", kAdaGradLocal};
  const Tensors full = trained(run, {base[0], base[1], shared_hparam()});
  for (const char* type :
       {"DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash"})
    for (const char* ranks : {"[[0]]", "[[0,1,2,3]]"})
      for (const bool on_gpu : {false, true}) {
        if (on_gpu && ranks != std::string("[[0]]")) continue;
        INFO(type << " " << ranks << " on a GPU: " << on_gpu);
        const Tensors hash =
            trained(run,
                    {base[0], base[1], std::string("layers.emb.type=") + type, gpu(ranks),
                     shared_hparam(R"(,"max_vocabulary_size_per_gpu":1000)")},
                    on_gpu);
        CHECK(hash.count("emb.table_2") == 0);
        for (const std::string table : {"emb.table_0", "emb.table_1"}) {
          const auto& keys = hash.at(table + ".keys");
          CHECK(keys.size() > 3);
          std::vector<float> want;
          for (const float key : keys) {
            const auto row = full.at(table).begin() + static_cast<std::ptrdiff_t>(key) * 4;
            want.insert(want.end(), row, row + 4);
          }
          if (ranks == std::string("[[0]]") && !on_gpu)
            CHECK((hash.at(table) == want));
          else
            check_close(std::span<const float>(hash.at(table)), std::span<const float>(want),
                        {.absolute = 2e-5, .relative = 2e-5}, table.c_str());
        }
      }
}

TEST_CASE("tables that slots share resume, lie beyond memory and are exported") {
  const SmallRun run;
  const auto memory = [&](const std::string& gb) {
    return fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb, run.path());
  };
  for (const char* ranks : {"[[0]]", "[[0,1]]"}) {
    INFO(ranks);
    const Changes base = {kAdaGradLocal, shared_hparam(), gpu(ranks), "solver.batchsize=16",
                          "solver.batchsize_eval=16"};
    // As little memory as the tables can have.
    Changes too_little = base;
    too_little.push_back(memory("1e-6"));
    const std::string least = run_with(run, {}, too_little).err;
    std::smatch found;
    REQUIRE(std::regex_search(least, found, std::regex("at least ([0-9.]+) GB")));
    const auto go = [&](int iterations, const Changes& arguments, const std::string& more) {
      Changes changes = base;
      changes.push_back(fmt::format("solver.max_iter={}", iterations));
      if (!more.empty()) changes.push_back(more);
      return trained(run, changes, false, arguments);
    };
    const Tensors whole = go(20, {"--export", run / "whole.safetensors"}, "");
    (void)go(20, {"--export", run / "beyond.safetensors"}, memory(found[1]));
    CHECK((read_text(run / "beyond.safetensors") == read_text(run / "whole.safetensors")));
    (void)go(7, {}, "");
    std::filesystem::rename(run / "out", run / "half");
    CHECK((go(20, {"--resume", run / "half"}, "") == whole));
    std::filesystem::remove_all(run / "half");
  }
}

TEST_CASE("slot_tables that do not fit, and checkpoints of other tables, are errors by name") {
  const SmallRun run;
  const auto refused = [&](const std::string& tables, const std::string& sizes) {
    const auto result =
        run_with(run, {"--check"},
                 {fmt::format(R"(layers.emb.sparse_embedding_hparam={{"embedding_vec_size":4,)"
                              R"("slot_tables":{},"slot_size_array":{}}})",
                              tables, sizes)});
    CHECK(result.code == kExitConfig);
    return result.err;
  };
  check_contains(refused("[0,1,0]", "[40,5,300]"),
                 {"sparse_embedding_hparam.slot_tables", "slots 0 and 2", "table 0", "40 and 300"});
  check_contains(refused("[0,2,1]", "[300,5,300]"), {"slot_tables", "slot 1, found 2"});
  check_contains(refused("[0,1]", "[300,5,300]"), {"slot_tables", "each of 3 slots, found 2"});
  check_contains(refused("[0,-1,0]", "[300,5,300]"), {"slot_tables"});
  (void)trained(run, {kAdaGradLocal, "solver.max_iter=1"});
  const auto result = run_with(run, {"--resume", run / "out"}, {kAdaGradLocal, shared_hparam()});
  CHECK(result.code == kExitData);
  check_contains(result.err, {"its tensors are not those of the model",
                              "emb.table_2: expected no such tensor"});
}

}  // namespace hlite::test
