// `train --device cuda` on the emulated GPU: the whole way of a GPU run but for the hardware.
#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/end_to_end/emulated_gpu.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

// The first 20 iterations of a golden run; `late`: with work on streams as late as it may be;
// `changes` of the config.
void check_golden(const std::string& name, const char* graph, bool evaluate, bool late = false,
                  const std::vector<std::string>& changes = {}) {
  INFO(name << ", cuda_graph " << graph << ", late " << late << ", "
            << fmt::format("{}", fmt::join(changes, " ")));
  const GoldenRun run(name);
  std::vector<std::string> command = kEmulated;
  if (late) command.push_back("HLITE_EMULATED_STREAMS=late");
  command.insert(command.end(),
                 {HLITE_TRAIN, "--config", run / "config.json", "--init", run / "init.safetensors",
                  "--quiet", "--device", "cuda", "--metrics", run / "metrics.jsonl", "--export",
                  run / "got.safetensors"});
  command = with_changes(
      command, {"solver.display=1", "solver.max_iter=20", std::string("solver.cuda_graph=") + graph,
                std::string("solver.eval_interval=") + (evaluate ? "10" : "0")});
  REQUIRE(run_program(with_changes(command, changes)).code == 0);
  std::map<int, double> losses;
  for (const auto& event : events_in(run / "metrics.jsonl", "train"))
    losses[event["iter"]] = event["batch_loss"];
  const auto expected = read_csv(run / "expected_losses.csv");
  REQUIRE(losses.size() == 20);
  for (const auto& row : expected)
    if (const int iter = static_cast<int>(row[0]); iter <= 20) {
      INFO("iteration " << iter);
      CHECK(std::abs(losses[iter] - row[2]) / row[2] <= 1e-5);
    }
  auto got = read_weights(run / "got.safetensors");
  std::erase_if(got, [](const auto& tensor) { return tensor.first.ends_with(".keys"); });
  check_close_tensors(got, read_weights(run / "weights_20.safetensors"), 1e-5);
}

}  // namespace

TEST_CASE("a golden run on an emulated GPU, with graphs and without", "[no-tsan]") {
  check_golden("dlrm_plain", "true", true);
  check_golden("dlrm_plain", "false", true);
}

TEST_CASE("a golden run on an emulated GPU that puts off all work as long as it may", "[no-tsan]") {
  check_golden("dlrm_plain", "true", true, true);
  check_golden("dlrm_plain", "false", true, true);
}

TEST_CASE("the golden run of fused layers on an emulated GPU", "[no-tsan]") {
  check_golden("dlrm_fused", "true", false);
}

TEST_CASE("the golden runs of the wider family on an emulated GPU", "[no-tsan]") {
  bool late = false;
  for (const char* name : kFamilyRuns) check_golden(name, "true", false, late = !late);
}

TEST_CASE("the golden run with hashed tables on an emulated GPU", "[no-tsan]") {
  for (const char* type :
       {"DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash"})
    check_golden("dlrm_fused", *type == 'D' ? "true" : "false", false, *type == 'D',
                 {std::string("layers.embedding.type=") + type,
                  R"(layers.embedding.sparse_embedding_hparam={"embedding_vec_size":16,)"
                  R"("combiner":0,"max_vocabulary_size_per_gpu":30000})"});
}

// 40 of the golden run's 120 iterations.
TEST_CASE("a golden run in 16 bits on an emulated GPU reaches the AUC of float", "[no-tsan]") {
  for (const char* precision : {"bf16", "fp16"}) {
    INFO(precision);
    const GoldenRun run("dlrm_plain");
    std::vector<std::string> command = kEmulated;
    command.insert(
        command.end(),
        {HLITE_TRAIN, "--config", run / "config.json", "--init", run / "init.safetensors",
         "--quiet", "--device", "cuda", "--set", "solver.max_iter=40", "--set",
         std::string("solver.precision=") + precision, "--metrics", run / "metrics.jsonl"});
    REQUIRE(run_program(command).code == 0);
    const auto evaluation = last_event(run / "metrics.jsonl", "eval");
    const auto expected = read_csv(run / "expected_eval.csv");
    REQUIRE(expected[0][0] == 40);
    CHECK(std::abs(evaluation["auc"].get<double>() - expected[0][1]) <= 0.004);
  }
}

// Dropout, Adam, momentum, a shuffled order and a partial last batch, and everything that has a
// state: the same as on the CPU, to the same bits with graphs and without, and across a resume.
TEST_CASE("a run on an emulated GPU repeats, resumes, and is that of the CPU") {
  const SmallRun run;
  const auto train = [&](const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--save", run / name});
    REQUIRE(train_on_gpu(run, arguments).code == 0);
  };
  train("graph", {"--set", "solver.max_iter=60"});
  train("plain", {"--set", "solver.max_iter=60", "--set", "solver.cuda_graph=false"});
  CHECK((everything(run / "graph") == everything(run / "plain")));
  train("half", {"--set", "solver.max_iter=33"});
  train("resumed", {"--set", "solver.max_iter=60", "--resume", run / "half"});
  CHECK((everything(run / "resumed") == everything(run / "graph")));

  REQUIRE(run.train({"--quiet", "--device", "cpu", "--set", "solver.max_iter=60", "--save",
                     run / "cpu"})
              .code == 0);
  check_close_tensors(everything(run / "graph"), everything(run / "cpu"), 2e-4);
  // A GPU's checkpoint goes on, on the CPU.
  REQUIRE(run.train({"--quiet", "--device", "cpu", "--set", "solver.max_iter=60", "--resume",
                     run / "half", "--save", run / "moved"})
              .code == 0);
}

TEST_CASE("a run in 16 bits on an emulated GPU repeats and resumes, its loss scale included",
          "[no-tsan]") {
  const SmallRun run;
  const auto train = [&](const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--set", "solver.precision=fp16", "--save", run / name});
    REQUIRE(train_on_gpu(run, arguments).code == 0);
  };
  train("graph", {"--set", "solver.max_iter=40"});
  train("plain", {"--set", "solver.max_iter=40", "--set", "solver.cuda_graph=false"});
  CHECK((everything(run / "graph") == everything(run / "plain")));
  train("half", {"--set", "solver.max_iter=17"});
  train("resumed", {"--set", "solver.max_iter=40", "--resume", run / "half"});
  CHECK((everything(run / "resumed") == everything(run / "graph")));
  const auto scale = [&](const std::string& name) {
    return nlohmann::json::parse(read_text(run / name + "/manifest.json"))["loss_scale"];
  };
  CHECK(scale("half")["good"].get<int>() > 0);
  CHECK(scale("resumed") == scale("graph"));
  // The CPU, in float, goes on from it.
  CHECK(run.train({"--quiet", "--device", "cpu", "--set", "solver.max_iter=40", "--resume",
                   run / "half"})
            .code == 0);
}

namespace {

struct EvalEvents {
  std::vector<std::string> order;       // of all events: "eval 5"
  std::map<int, nlohmann::json> evals;  // by iteration
  [[nodiscard]] std::map<int, double> areas() const {
    std::map<int, double> all;
    for (const auto& [iter, event] : evals) all[iter] = event["auc"];
    return all;
  }
};

EvalEvents events_of(const std::string& file) {
  EvalEvents events;
  for (const auto& event : events_in(file)) {
    const int iter = event["iter"];
    events.order.push_back(event["event"].get<std::string>() + " " + std::to_string(iter));
    if (event["event"] == "eval") events.evals[iter] = event;
  }
  return events;
}

}  // namespace

TEST_CASE("a GPU's evaluations overlap training and are those of the CPU, each of its iteration") {
  const SmallRun run;
  const std::vector<std::string> often = {"--set", "solver.max_iter=23", "--set",
                                          "solver.eval_interval=5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), often.begin(), often.end());
    return more;
  };
  REQUIRE(run.train(with({"--device", "cpu", "--metrics", run / "cpu"})).code == 0);
  const EvalEvents want = events_of(run / "cpu");
  REQUIRE(want.evals.size() == 4);
  std::vector<EvalEvents> runs;
  for (const char* graph : {"true", "false"}) {
    REQUIRE(train_on_gpu(run, with({"--metrics", run / graph, "--set",
                                    std::string("solver.cuda_graph=") + graph}))
                .code == 0);
    runs.push_back(events_of(run / graph));
    CHECK(runs.back().order == want.order);
    for (const auto& [iter, event] : want.evals) {
      INFO("iteration " << iter);
      const auto& got = runs.back().evals[iter];
      CHECK(got["samples"] == event["samples"]);
      CHECK(std::abs(got["loss"].get<double>() - event["loss"].get<double>()) <= 1e-4);
      CHECK(std::abs(got["auc"].get<double>() - event["auc"].get<double>()) <= 1e-3);
    }
  }
  CHECK(runs[0].areas() == runs[1].areas());

  // Where the result decides whether training goes on, training waits for it.
  const auto target =
      train_on_gpu(run, {"--set", "solver.max_iter=100", "--set", "solver.eval_interval=2", "--set",
                         R"(solver.eval_metrics=["AUC:0.01"])", "--metrics", run / "target"});
  CHECK(target.code == 0);
  CHECK(events_of(run / "target").order == std::vector<std::string>{"eval 2", "end 2"});
}

TEST_CASE(
    "a GPU without memory for an evaluation leaves its metrics to the CPU, to the same bits") {
  const SmallRun run;
  write_text(run / "eval.bin", small_samples(3000, 2));
  const auto train = [&](size_t memory, const std::string& metrics) {
    return train_with(
        memory, run,
        {"--quiet", "--device", "cuda", "--metrics", run / metrics, "--set", "solver.max_iter=5",
         "--set", "solver.eval_interval=2", "--set", "solver.eval_batches=50"});
  };
  const auto enough = train(size_t{1} << 30, "device");
  REQUIRE(enough.code == 0);
  CHECK(enough.err.find("GPU cannot hold") == std::string::npos);
  // The first size that fits the model is too small for 3000 samples of 18 bytes more.
  size_t memory = (size_t{80} << 20) + (size_t{1} << 15);
  auto full = train(memory, "host");
  for (; full.code == 4 && memory < size_t{100} << 20; full = train(memory, "host"))
    memory += size_t{1} << 15;
  REQUIRE(full.code == 0);
  check_contains(full.err, {"the GPU cannot hold scores, labels and metrics of 3000 samples",
                            "of device memory needed", "the CPU computes the metrics"});
  const EvalEvents device = events_of(run / "device"), host = events_of(run / "host");
  CHECK(host.evals.size() == 2);
  CHECK(device.areas() == host.areas());
  CHECK(device.order == host.order);
}

// Puts a NaN into a tensor of a weights file.
static void spoil(const std::string& path, const std::string& tensor, size_t element) {
  std::string bytes = read_text(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto entries = nlohmann::json::parse(bytes.substr(8, header));
  const size_t at = 8 + header + entries.at(tensor).at("data_offsets")[0].get<size_t>();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + at + element * sizeof(nan), &nan, sizeof(nan));
  write_text(path, bytes);
}

// The emulated cuBLASLt makes 0 of NaN in a fused ReLU, so that the loss stays finite. Layers of up
// to 16 inputs have a kernel of their own, which does not: t1 has 22 here.
TEST_CASE("a weight that is NaN ends a run on a GPU that shows a finite loss") {
  const SmallRun run;
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    INFO(precision);
    const auto train = [&](std::vector<std::string> arguments) {
      for (const std::string& set :
           {std::string("solver.precision=") + precision,
            std::string("layers.b1.fc_param.num_output=16"),
            std::string("layers.emb.sparse_embedding_hparam.embedding_vec_size=16")})
        arguments.insert(arguments.end(), {"--set", set});
      return train_on_gpu(run, std::move(arguments));
    };
    REQUIRE(train({"--set", "solver.max_iter=1", "--export", run / "weights.safetensors"}).code ==
            0);
    spoil(run / "weights.safetensors", "t1.bias", 3);
    const auto result = train({"--set", "solver.max_iter=40", "--init", run / "weights.safetensors",
                               "--save", run / precision});
    INFO(result.err);
    CHECK(result.code == 3);
    check_contains(result.err, {"iteration 10: expected finite weights, found nan in \"t1.bias\", "
                                "element 3",
                                "learning rate"});
    CHECK(!std::filesystem::exists(run / precision));
  }
  // On the CPU the loss shows it.
  const auto cpu = run.train({"--device", "cpu", "--init", run / "weights.safetensors", "--set",
                              "layers.b1.fc_param.num_output=16", "--set",
                              "layers.emb.sparse_embedding_hparam.embedding_vec_size=16"});
  CHECK(cpu.code == 3);
  check_contains(cpu.err, {"iteration 1: expected a finite loss, found ", "nan: first in tensor"});
}

}  // namespace hlite::test
