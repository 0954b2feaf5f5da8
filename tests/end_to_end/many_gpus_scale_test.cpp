// A loss scale on several emulated GPUs, and what is taken of gradients that it multiplies.
#include <cstring>
#include <filesystem>
#include <limits>

#include "hugectr_lite/core/checksum.h"
#include "tests/end_to_end/golden_on_gpus.h"

namespace hlite::test {
namespace {

// A checkpoint's manifest with another loss scale.
void set_scale(const std::string& directory, double scale, int good) {
  const std::string path = directory + "/manifest.json";
  auto manifest = nlohmann::ordered_json::parse(read_text(path));
  manifest["loss_scale"] = {{"scale", scale}, {"good", good}};
  manifest.erase("xxh3_64");
  Checksum checksum;
  const std::string text = manifest.dump();
  checksum.add(std::as_bytes(std::span<const char>(text)));
  manifest["xxh3_64"] = fmt::format("{:016x}", checksum.sum().xxh3_64);
  write_text(path, manifest.dump(2) + "\n");
}

// One sample in 29 has features that make far larger gradients than others': of one batch over some
// ranks these overflow, over others not.
std::string uneven_samples() {
  std::string bytes = small_samples(500, 1);
  const int32_t large = std::numeric_limits<int32_t>::max() - 1;
  constexpr size_t kSample = 24, kFeatures = 4;
  for (size_t at = 0; at < bytes.size(); at += 29 * kSample)
    for (size_t i = 0; i < 2; ++i)
      std::memcpy(bytes.data() + at + kFeatures + i * sizeof(large), &large, sizeof(large));
  return bytes;
}

class ScaledRuns {
 public:
  explicit ScaledRuns(Words changes) : changes_(std::move(changes)) {
    write_text(run_ / "train.bin", uneven_samples());
    changes_.emplace_back("solver.eval_interval=0");
  }
  [[nodiscard]] std::string operator/(const std::string& file) const { return run_ / file; }
  // What a run on emulated GPUs saves.
  [[nodiscard]] Tensors train(const char* rows, const Words& changes, const Words& more = {},
                              const Words& environment = {}) const {
    REQUIRE(run_program(kFourGpus + environment +
                        run_.command({"--quiet", "--device", "cuda", "--threads", "1", "--save",
                                      run_ / "saved"}) +
                        changes_of(changes_) + changes_of({gpu(rows)}) + changes_of(changes) + more)
                .code == 0);
    return everything(run_ / "saved");
  }
  // From the checkpoint `start`, after iteration 1: what is saved after iteration 10, and the
  // loss scales and their counts, which say when they changed last, of some iterations.
  struct Scaled {
    Tensors saved;
    std::string history;
  };
  [[nodiscard]] Scaled go_on(const char* rows, const Words& changes = {},
                             const Words& environment = {}) const {
    const std::string prefix = run_ / "at_";
    Scaled scaled{
        train(rows,
              Words{"solver.max_iter=10", "solver.snapshot=4", "solver.snapshot_prefix=" + prefix} +
                  changes,
              {"--resume", run_ / "start"}, environment),
        ""};
    for (const std::string& directory : {prefix + "4", prefix + "8", run_ / "saved"}) {
      const auto manifest = nlohmann::json::parse(read_text(directory + "/manifest.json"));
      scaled.history += manifest["loss_scale"].dump() + "\n";
    }
    return scaled;
  }

 private:
  SmallRun run_;
  Words changes_;
};

const std::string kGlobal =
    R"({"type":"AdaGrad","update_type":"Global","adagrad_hparam":{"learning_rate":0.05,)"
    R"("initial_accumulator":0.1}})";
const Words kPenalty = {"layers.emb.sparse_embedding_hparam.regularizer=L2",
                        "layers.emb.sparse_embedding_hparam.lambda=0.001", "optimizer=" + kGlobal,
                        "layers.emb.optimizer=" + kGlobal},
            kClip = {"solver.gradient_clip_norm=0.05", "optimizer=" + kGlobal,
                     "layers.emb.optimizer=" + kGlobal};

// Where the scale begins: beyond what gradients bear; and three iterations from growing.
constexpr std::pair<double, int> kBeginnings[] = {{0x1p23, 0}, {0x1p19, 1997}};

}  // namespace

TEST_CASE("one loss scale is found on several GPUs, and steps are left out that one leaves out",
          "[release-only]") {
  for (const Words& changes : {Words{}, kPenalty + kClip}) {
    const ScaledRuns runs(changes + Words{"solver.precision=fp16"});
    (void)runs.train("[[0]]", {"solver.max_iter=1"});
    std::filesystem::rename(runs / "saved", runs / "start");
    for (const auto& [scale, good] : kBeginnings) {
      if (good == 0 && !changes.empty()) continue;
      INFO("scale " << scale << ", " << changes.size() << " changes");
      set_scale(runs / "start", scale, good);
      const auto one = runs.go_on("[[0]]");
      // Halved in iteration 8, of a scale that grew in iteration 4, if not before.
      CHECK(
          one.history.ends_with("{\"good\":0,\"scale\":524288.0}\n"
                                "{\"good\":2,\"scale\":524288.0}\n"));
      const auto four = runs.go_on("[[0,1,2,3]]");
      CHECK(four.history == one.history);
      check_weights(four.saved, one.saved, 2e-5);
      const auto shared = runs.go_on("[[0,1],[0,1]]", {"solver.shard_optimizer=true"});
      CHECK(shared.history == one.history);
      check_weights(shared.saved, one.saved, 2e-5);
    }
  }
}

// A run that is made again decides once.
TEST_CASE("the loss scale of several GPUs depends on no capacity, no graph and no order of work",
          "[no-tsan]") {
  const ScaledRuns runs({"solver.precision=fp16"});
  (void)runs.train("[[0]]", {"solver.max_iter=1"});
  std::filesystem::rename(runs / "saved", runs / "start");
  set_scale(runs / "start", kBeginnings[0].first, kBeginnings[0].second);
  const auto want = runs.go_on("[[0,1,2,3]]");
  const Words tight = {"layers.emb.sparse_embedding_hparam.exchange_capacity=1"};
  const auto check = [&](const Words& changes, const Words& order) {
    const auto got = runs.go_on("[[0,1,2,3]]", changes, order);
    CHECK(got.history == want.history);
    CHECK((got.saved == want.saved));
  };
  check({"solver.cuda_graph=false"}, {});
  check(tight, {});
  check(tight, {order_of(1)});
}

// Tables' gradients are unscaled before an iteration is decided on.
TEST_CASE("a loss scale that grows moves no weight, with penalties and clipping on several GPUs",
          "[release-only]") {
  for (const char* rows : {"[[0]]", "[[0,1]]"}) {
    const ScaledRuns runs(kPenalty + kClip + Words{"solver.precision=fp16"});
    (void)runs.train(rows, {"solver.max_iter=1"});
    std::filesystem::rename(runs / "saved", runs / "start");
    const auto with_scale = [&](double scale, int good) {
      set_scale(runs / "start", scale, good);
      return runs.go_on(rows);
    };
    const auto steady = with_scale(0x1p13, 0), growing = with_scale(0x1p13, 1997);
    CHECK(growing.history.find(R"({"good":0,"scale":16384.0})") == 0);
    CHECK(steady.history.find("16384") == std::string::npos);
    check_weights(growing.saved, steady.saved, 2e-5);
  }
}

TEST_CASE("gradients of a scaled loss are clipped and penalised on several GPUs as on one",
          "[release-only]") {
  const std::string fixed = "solver.mixed_precision=1024", dynamic = "solver.precision=fp16";
  for (const auto& [precision, changes] :
       {std::pair(fixed, kPenalty + kClip), {dynamic, kPenalty}, {dynamic, kClip}}) {
    INFO(precision << ", " << changes.size() << " changes");
    const ScaledRuns runs(changes + Words{precision, "solver.max_iter=8"});
    const auto one = runs.train("[[0]]", {});
    check_weights(runs.train("[[0,1,2,3]]", {}), one, 2e-5);
    check_weights(runs.train("[[0,1],[2,3]]", {"solver.shard_optimizer=true"}), one, 2e-5);
  }
}

}  // namespace hlite::test
