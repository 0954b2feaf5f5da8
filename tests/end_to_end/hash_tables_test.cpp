// The ...Hash embedding types: a row is inserted when its key is first seen, and results are those
// of full tables.
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

const char* const kTypes[] = {"DistributedSlotSparseEmbeddingHash",
                              "LocalizedSlotSparseEmbeddingHash"};

std::string hparam(const std::string& more) {
  return R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4)" + more + "}";
}

void train(const SmallRun& run, std::vector<std::string> arguments,
           const std::vector<std::string>& changes) {
  arguments.insert(arguments.end(), {"--quiet", "--threads", "2"});
  REQUIRE(run.train(arguments, changes).code == 0);
}

}  // namespace

TEST_CASE("golden runs with hashed tables", "[no-tsan][slow][release-only]") {
  for (const char* type : kTypes)
    for (const char* ranks : {"[[0]]", "[[0,1]]", "[[0],[1,2,3]]"})
      check_run("dlrm_fused", 2,
                {std::string("layers.embedding.type=") + type, gpu(ranks),
                 R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                 R"("combiner":0,"max_vocabulary_size_per_gpu":30000})"});
}

// A full table that starts from the same seed: every row that training touched, and no other, is in
// the hashed one, with the same values; also where the optimizer keeps states.
TEST_CASE("hashed tables hold the trained rows of a full table") {
  const SmallRun run;
  for (
      const char* optimizer :
      {R"({"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":0.5}})",
       R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdam","update_type":"Local","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})",
       R"({"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-7}})",
       R"({"type":"Ftrl","update_type":"Local","ftrl_hparam":{"learning_rate":0.1,"beta":0.001,"lambda1":1e-5,"lambda2":1e-3}})"}) {
    INFO(optimizer);
    const std::string rule = std::string("layers.emb.optimizer=") + optimizer;
    train(run, {"--save", run / "full"}, {rule, "solver.max_iter=3"});
    const Tensors full = everything(run / "full");
    for (const char* type : kTypes)
      for (const char* ranks : {"[[0]]", "[[0,1,2,3]]"}) {
        INFO(type << " " << ranks);
        train(run, {"--save", run / "hash"},
              {rule, "solver.max_iter=3", gpu(ranks), std::string("layers.emb.type=") + type,
               hparam(R"(,"slot_size_array":[40,5,300],"max_vocabulary_size_per_gpu":1000)")});
        const Tensors hash = everything(run / "hash");
        size_t tables = 0, held = 0, all = 0;
        for (const auto& [name, keys] : hash) {
          if (!name.ends_with(".keys")) continue;
          ++tables;
          const std::string table = name.substr(0, name.size() - 5);
          for (const auto& [other, values] : full) {
            if (other != table && other.rfind(table + ".", 0) != 0) continue;
            INFO(other);
            const size_t width = hash.at(other).size() / keys.size();
            all += values.size();
            held += hash.at(other).size();
            std::vector<float> want;
            for (const float key : keys) {
              const auto row = static_cast<std::ptrdiff_t>(static_cast<size_t>(key) * width);
              want.insert(want.end(), values.begin() + row,
                          values.begin() + row + static_cast<std::ptrdiff_t>(width));
            }
            if (ranks == std::string("[[0]]"))  // sums of the same terms in the same order
              CHECK((hash.at(other) == want));
            else
              check_close(std::span<const float>(hash.at(other)), std::span<const float>(want),
                          {.absolute = 2e-5, .relative = 2e-5}, other.c_str());
          }
        }
        CHECK(tables == 3);
        CHECK(held > 0);
        CHECK(held < all);  // three batches do not touch every row
      }
  }
}

TEST_CASE("a checkpoint of hashed tables resumes on any ranks", "[slow]") {
  const SmallRun run;
  const std::string rule =
      std::string("layers.emb.optimizer=") +
      GENERATE(
          as<std::string>{},
          R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
          R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
          R"({"type":"RowWiseAdam","update_type":"Local","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})");
  INFO(rule);
  for (const char* type : kTypes) {
    const std::vector<std::string> base = {
        rule, std::string("layers.emb.type=") + type,
        hparam(R"(,"max_vocabulary_size_per_gpu":1000,"combiner":"mean")")};
    const auto go = [&](const char* ranks, std::vector<std::string> arguments,
                        const char* iterations) {
      auto changes = base;
      changes.push_back(gpu(ranks));
      changes.push_back(std::string("solver.max_iter=") + iterations);
      train(run, std::move(arguments), changes);
    };
    go("[[0,1,2,3]]", {"--save", run / "half"}, "3");
    go("[[0,1,2,3]]", {"--save", run / "whole"}, "60");
    go("[[0,1,2,3]]", {"--resume", run / "half", "--save", run / "four"}, "60");
    CHECK((everything(run / "four") == everything(run / "whole")));
    go("[[0]]", {"--resume", run / "half", "--save", run / "one"}, "60");
    check_close_tensors(everything(run / "one"), everything(run / "whole"), 5e-4);
    go("[[0,1,2,3],[4,5,6,7]]", {"--resume", run / "half", "--save", run / "eight"}, "60");
    check_close_tensors(everything(run / "eight"), everything(run / "whole"), 5e-4);
    go("[[0,1]]", {"--resume", run / "half", "--save", run / "same"}, "3");
    CHECK((everything(run / "same") == everything(run / "half")));
  }
}

TEST_CASE("rows of many ranks that do not fit on fewer are refused with the size that fits") {
  const SmallRun run;
  const auto go = [&](const std::string& capacity, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--quiet", "--threads", "2"});
    arguments = with_changes(arguments, {"layers.emb.type=DistributedSlotSparseEmbeddingHash",
                                         hparam("," + capacity), "solver.max_iter=30"});
    return run.train(arguments);
  };
  const std::string four = R"("max_vocabulary_size_per_gpu":100)";
  REQUIRE(go(four, {"--save", run / "four", "--set", gpu("[[0,1,2,3]]")}).code == 0);
  size_t rows = 0;
  for (const auto& [name, values] : everything(run / "four"))
    if (name.ends_with(".keys")) rows += values.size();
  REQUIRE(rows > 250);

  const std::string place = "layers[1].sparse_embedding_hparam.",
                    found =
                        fmt::format("{} rows of \"emb\" in {} on rank 0 of 1", rows, run / "four");
  for (const char* option : {"--resume", "--init"}) {
    CAPTURE(option);
    const auto refused = go(four, {option, run / "four"});
    CHECK(refused.code == 2);
    const std::string wanted = fmt::format("max_vocabulary_size_per_gpu of at least {}", rows);
    check_contains(refused.err,
                   {place + "max_vocabulary_size_per_gpu", wanted, found, "room for 100"});
    check_contains(go(four, {option, run / "four", "--check"}).out,
                   {"cannot start", wanted, found});
    CHECK(go(fmt::format(R"("max_vocabulary_size_per_gpu":{})", rows - 1), {option, run / "four"})
              .code == 2);
    CHECK(
        go(fmt::format(R"("max_vocabulary_size_per_gpu":{})", rows), {option, run / "four"}).code ==
        0);
    check_contains(
        go(R"("max_vocabulary_size":100)", {option, run / "four"}).err,
        {place + "max_vocabulary_size:", fmt::format("max_vocabulary_size of at least {}", rows)});
  }
  // The largest of two ranks decides.
  const auto refused =
      go(R"("max_vocabulary_size":200)", {"--resume", run / "four", "--set", gpu("[[0,1]]")});
  CHECK(refused.code == 2);
  const size_t at = refused.err.find("at least ");
  REQUIRE(at != std::string::npos);
  const int fits = std::stoi(refused.err.substr(at + 9));
  for (const int less : {0, 1})
    CHECK(go(fmt::format(R"("max_vocabulary_size":{})", fits - less),
             {"--resume", run / "four", "--set", gpu("[[0,1]]")})
              .code == 2 * less);
}

// Everything of a checkpoint of one device goes on on the other.
TEST_CASE("hashed tables of a GPU are those of the CPU, also across a resume", "[no-tsan]") {
  const SmallRun run;
  for (
      const char* optimizer :
      {R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdaGrad","update_type":"Local","row_wise_adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
       R"({"type":"RowWiseAdam","update_type":"Local","row_wise_adam_hparam":{"learning_rate":0.01,"epsilon":1e-7}})",
       R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-7}})"}) {
    INFO(optimizer);
    const auto go = [&](bool on_gpu, std::vector<std::string> arguments, const char* iterations) {
      auto command = run.command(std::move(arguments));
      if (on_gpu)
        command.insert(command.begin(), {"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") +
                                                             HLITE_EMULATED_PLUGIN});
      command.insert(command.end(), {"--quiet", "--device", on_gpu ? "cuda" : "cpu"});
      command = with_changes(command,
                             {std::string("layers.emb.optimizer=") + optimizer,
                              std::string("solver.max_iter=") + iterations,
                              "layers.emb.type=DistributedSlotSparseEmbeddingHash",
                              hparam(R"(,"max_vocabulary_size_per_gpu":1000,"combiner":"mean")")});
      REQUIRE(run_program(command).code == 0);
    };
    go(false, {"--save", run / "cpu_half"}, "3");
    go(true, {"--save", run / "gpu_half"}, "3");
    check_close_tensors(everything(run / "gpu_half"), everything(run / "cpu_half"), 2e-5);
    go(true, {"--resume", run / "cpu_half", "--save", run / "same"}, "3");
    CHECK((everything(run / "same") == everything(run / "cpu_half")));
    go(false, {"--save", run / "cpu"}, "20");
    go(true, {"--resume", run / "cpu_half", "--save", run / "crossed"}, "20");
    check_close_tensors(everything(run / "crossed"), everything(run / "cpu"), 5e-4);
    go(false, {"--resume", run / "gpu_half", "--save", run / "back"}, "20");
    check_close_tensors(everything(run / "back"), everything(run / "cpu"), 5e-4);
  }
}

// A GPU cuts the sums of a batch by how many lookups the rows before a row have.
TEST_CASE("hash tables of GPUs go on to the bit from a checkpoint", "[no-tsan]") {
  const SmallRun run;
  // So many samples that each table has rows which several pieces sum.
  write_text(run / "train.bin", small_samples(4000, 1));
  const auto bytes_of = [&](const char* ranks, const std::string& optimizer,
                            const std::string& rules, const char* iterations, const Words& more) {
    const auto result =
        run_program(kFourGpus + run.command({"--quiet", "--threads", "1", "--device", "cuda"}) +
                    more + Words{"--save", run / "saved"} +
                    changes_of({gpu(ranks), "layers.emb.type=DistributedSlotSparseEmbeddingHash",
                                hparam(R"(,"max_vocabulary_size_per_gpu":500)" + rules),
                                "solver.batchsize=384", "solver.batchsize_eval=384",
                                "solver.eval_interval=0", "layers.emb.optimizer=" + optimizer,
                                std::string("solver.max_iter=") + iterations}));
    REQUIRE(result.code == 0);
    return read_text(run / "saved/weights.safetensors") +
           read_text(run / "saved/optimizer.safetensors");
  };
  const std::string adagrad =
      R"({"type":"AdaGrad","update_type":"Local","adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})";
  for (const char* ranks : {"[[0]]", "[[0,1,2]]"})
    for (
        const auto& [optimizer, rules] :
        {std::pair(adagrad, std::string()),
         std::pair(adagrad, std::string(R"(,"eviction":{"interval":4,"steps_to_live":5})")),
         std::pair(
             std::string(
                 R"({"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":0.5}})"),
             std::string()),
         std::pair(
             std::string(
                 R"({"type":"Adam","update_type":"Global","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-7}})"),
             std::string())}) {
      CAPTURE(ranks, optimizer, rules);
      const std::string whole = bytes_of(ranks, optimizer, rules, "12", {});
      (void)bytes_of(ranks, optimizer, rules, "11", {});
      CHECK((bytes_of(ranks, optimizer, rules, "12", {"--resume", run / "saved"}) == whole));
    }
}

TEST_CASE("a hashed table that is full ends the run with a word on what to raise") {
  const SmallRun run;
  for (const char* where : {"[[0]]", "[[0,1]]", "a GPU"}) {
    INFO(where);
    const bool on_gpu = *where == 'a';
    std::vector<std::string> arguments = {"--quiet", "--device", on_gpu ? "cuda" : "cpu"};
    arguments = with_changes(arguments, {gpu(on_gpu ? "[[0]]" : where),
                                         "layers.emb.type=DistributedSlotSparseEmbeddingHash",
                                         hparam(R"(,"max_vocabulary_size_per_gpu":9)")});
    auto command = run.command(arguments);
    command.insert(command.begin(),
                   {"/usr/bin/env", std::string("HLITE_CUDA_LIBRARY=") + HLITE_EMULATED_PLUGIN});
    const auto result = run_program(command);
    CHECK(result.code == 3);
    check_contains(result.err, {"emb", "is full", "of table", "all 9 rows",
                                "raise max_vocabulary_size_per_gpu"});
  }
}

TEST_CASE("a hash type's capacity in MB is that of so many rows, and plan_file changes nothing") {
  const SmallRun run;
  std::vector<std::string> exports;
  // 1 MB of rows of 16 bytes.
  for (const char* capacity :
       {R"(,"max_vocabulary_size_per_gpu":65536)", R"(,"workspace_size_per_gpu_in_mb":1)"}) {
    std::vector<std::string> arguments = {"--quiet", "--save", run / "out"};
    arguments = with_changes(
        arguments, {"layers.emb.type=LocalizedSlotSparseEmbeddingHash", "solver.max_iter=9",
                    "layers.emb.plan_file=all2all_plan.json", hparam(capacity)});
    REQUIRE(run.train(arguments).code == 0);
    exports.push_back(read_text(run / "out/weights.safetensors"));
  }
  CHECK(exports[0] == exports[1]);
}

TEST_CASE("a hash type without a size is an error that names what it needs") {
  const SmallRun run;
  std::vector<std::string> arguments = {"--quiet"};
  arguments =
      with_changes(arguments, {"layers.emb.type=DistributedSlotSparseEmbeddingHash", hparam("")});
  const auto result = run.train(arguments);
  CHECK(result.code == 2);
  check_contains(result.err,
                 {"sparse_embedding_hparam", "max_vocabulary_size_per_gpu is required"});
  arguments.pop_back();
  arguments.push_back(
      hparam(R"(,"max_vocabulary_size_per_gpu":9,"workspace_size_per_gpu_in_mb":1)"));
  const auto both = run.train(arguments);
  CHECK(both.code == 2);
  check_contains(both.err, {"workspace_size_per_gpu_in_mb", "expected either", "found both"});
}

}  // namespace hlite::test
