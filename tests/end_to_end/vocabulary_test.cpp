// Hash tables whose keys get and lose rows: on any ranks and devices, in any tier, across a resume.
#include <regex>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

const std::string kAge = R"(,"eviction":{"interval":4,"steps_to_live":5})",
                  kCountAndAge = R"(,"admission":{"type":"count","threshold":2},)"
                                 R"("eviction":{"interval":4,"steps_to_live":7,"min_count":3,)"
                                 R"("count_decay":0.5},"default_vector":"zeros")",
                  kChanceAndNorm = R"(,"admission":{"type":"probability","probability":0.5},)"
                                   R"("eviction":{"interval":4,"min_l2_norm":0.08})";

// A small run whose embedding keeps a vocabulary by such rules.
class VocabularyRuns {
 public:
  explicit VocabularyRuns(const std::string& rules, int rows = 1000) : rules_(rules), rows_(rows) {}
  [[nodiscard]] const SmallRun& run() const { return run_; }

  ProgramResult train(const Words& environment, const std::string& ranks, int iterations,
                      const Words& more) const {
    const bool on_gpu = !environment.empty();
    return run_program(
        environment +
        run_.command({"--threads", on_gpu ? "1" : "2", "--device", on_gpu ? "cuda" : "cpu"}) +
        changes_of(
            {gpu(ranks), "layers.emb.type=DistributedSlotSparseEmbeddingHash",
             R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":"mean",)"
             R"("max_vocabulary_size_per_gpu":)" +
                 std::to_string(rows_) + rules_ + "}",
             R"(layers.emb.optimizer={"type":"AdaGrad","update_type":"Local",)"
             R"("adagrad_hparam":{"learning_rate":0.05,"initial_accumulator":0.1}})",
             "solver.eval_interval=9", "solver.max_iter=" + std::to_string(iterations)}) +
        more);
  }
  [[nodiscard]] Tensors saved(const Words& environment, const std::string& ranks, int iterations,
                              const Words& more = {}, const std::string& name = "saved") const {
    REQUIRE(train(environment, ranks, iterations, more + Words{"--save", run_ / name}).code == 0);
    return everything(run_ / name);
  }

 private:
  const SmallRun run_;
  const std::string rules_;
  const int rows_;
};

bool holds_words(const std::string& tensor) {
  return tensor.ends_with(".keys") || tensor.ends_with(".uses") || tensor.ends_with(".candidates");
}

// Keys, uses and counted keys to the bit, values to rounding.
void check_vocabulary(const Tensors& got, const Tensors& want) {
  size_t words = 0;
  for (const auto& [name, values] : want) {
    if (!holds_words(name)) continue;
    INFO(name);
    ++words;
    REQUIRE(got.count(name) == 1);
    CHECK((got.at(name) == values));
  }
  CHECK(words >= 6);
  check_close_tensors(got, want, 2e-4);
}

}  // namespace

TEST_CASE("the same keys get and lose rows on any number of ranks", "[no-tsan]") {
  for (const std::string& rules : {kCountAndAge, kChanceAndNorm}) {
    INFO(rules);
    const VocabularyRuns runs(rules);
    const auto one = runs.saved({}, "[[0]]", 20);
    check_vocabulary(runs.saved({}, "[[0,1]]", 20), one);
    check_vocabulary(runs.saved({}, "[[0],[1,2,3]]", 20), one);
    if (rules != kCountAndAge) continue;
    const Words sevenths = {"--set", "solver.batchsize=28", "--set", "solver.batchsize_eval=56"};
    check_vocabulary(runs.saved({}, "[[0,1,2,3,4,5,6]]", 20, sevenths),
                     runs.saved({}, "[[0]]", 20, sevenths));
  }
}

TEST_CASE("the same keys get and lose rows on GPUs", "[no-tsan]") {
  for (const std::string& rules : {kAge, kCountAndAge, kChanceAndNorm}) {
    INFO(rules);
    const VocabularyRuns runs(rules);
    const auto one = runs.saved({}, "[[0]]", 13);
    check_vocabulary(runs.saved(kFourGpus, "[[0]]", 13), one);
    if (rules == kCountAndAge) check_vocabulary(runs.saved(kFourGpus, "[[0,1]]", 13), one);
  }
}

TEST_CASE("rules that contradict each other are refused with their place") {
  const auto refusal = [](const std::string& rules) {
    const auto result = VocabularyRuns(rules).train({}, "[[0]]", 2, {"--quiet"});
    CHECK(result.code == 2);
    return result.err;
  };
  const std::string place = "layers[1].sparse_embedding_hparam.";
  check_contains(refusal(R"(,"admission":{"type":"count","probability":0.5})"),
                 {place + "admission.probability", "expected type \"probability\""});
  check_contains(refusal(R"(,"admission":{"type":"probability","threshold":3})"),
                 {place + "admission.threshold", "expected type \"count\""});
  check_contains(refusal(R"(,"admission":{"threshold":3})"),
                 {place + "admission", "missing key \"type\""});
  check_contains(refusal(R"(,"eviction":{"count_decay":0.5})"),
                 {place + "eviction.count_decay", "requires min_count"});
}

TEST_CASE("vocabularies on several GPUs do not depend on the order of their work",
          "[release-only]") {
  const VocabularyRuns runs(kCountAndAge);
  const auto want = runs.saved(kFourGpus, "[[0,1,2,3]]", 10);
  check_vocabulary(want, runs.saved({}, "[[0,1,2,3]]", 10));
  for (int seed = 1; seed <= 2; ++seed)
    CHECK((runs.saved(kFourGpus + Words{order_of(seed)}, "[[0,1,2,3]]", 10) == want));
}

TEST_CASE("a vocabulary goes on across resumes, to the bit", "[no-tsan]") {
  for (const std::string& rules : {kCountAndAge, kChanceAndNorm}) {
    INFO(rules);
    const VocabularyRuns runs(rules);
    const auto whole = runs.saved({}, "[[0,1]]", 24);
    Words from;
    for (const int stop : {3, 4, 14, 24}) {
      const std::string name = "at_" + std::to_string(stop);
      const auto part = runs.saved({}, "[[0,1]]", stop, from, name);
      if (stop == 24) CHECK((part == whole));
      from = {"--resume", runs.run() / name};
    }
    // From another number of ranks: the same keys.
    check_vocabulary(runs.saved({}, "[[0]]", 24, {"--resume", runs.run() / "at_14"}, "from_two"),
                     whole);
  }
}

TEST_CASE("a vocabulary in two tiers has the bits of one in memory", "[no-tsan]") {
  for (const std::string& rules : {kAge, kCountAndAge, kChanceAndNorm}) {
    INFO(rules);
    const VocabularyRuns runs(rules);
    const Words disk = {"--set",
                        R"(solver.embedding_memory={"host_gb":0.0253,"disk":".","disk_gb":1})"};
    CHECK((runs.saved({}, "[[0]]", 30, disk) == runs.saved({}, "[[0]]", 30)));
  }
}

// Rows that close up leave the lines of a GPU's memory.
TEST_CASE("a vocabulary beyond a GPU's memory has the bits of one in it, and the CPU's keys",
          "[no-tsan]") {
  // Of these, so many rows are in use that lines change their rows between evictions, too.
  const std::string rare = R"(,"eviction":{"interval":10,"steps_to_live":7})";
  for (const std::string& rules : {rare, kCountAndAge, kChanceAndNorm}) {
    INFO(rules);
    const VocabularyRuns runs(rules);
    const Words small = changes_of({"solver.batchsize=16", "solver.batchsize_eval=16"});
    const auto memory = [&](const std::string& gb) {
      return small + changes_of({"solver.embedding_memory={\"gpu_gb\":" + gb + "}"});
    };
    const auto refused = runs.train(kFourGpus, "[[0]]", 30, memory("1e-6"));
    std::smatch least;
    INFO(refused.err);
    REQUIRE(std::regex_search(refused.err, least, std::regex("at least ([0-9.]+) GB")));
    const Words metrics = {"--metrics", runs.run() / "m.jsonl"};
    const auto tiers = runs.saved(kFourGpus, "[[0]]", 30, memory(least[1]) + metrics);
    CHECK((tiers == runs.saved(kFourGpus, "[[0]]", 30, small)));
    check_vocabulary(tiers, runs.saved({}, "[[0]]", 30, small));
    const auto layer = [&](const char* event) {
      return last_event(runs.run() / "m.jsonl", event)["layers"].at(0);
    };
    const nlohmann::json kept = layer("vocabulary");
    INFO(kept.dump());
    CHECK(kept["expired"].get<int>() + kept["rare"].get<int>() + kept["small"].get<int>() > 0);
    const nlohmann::json moved = layer("tables");
    INFO(moved.dump());
    if (rules == rare) CHECK(moved["written_rows"].get<double>() > 0);
  }
}

TEST_CASE("rows leave at checkpoints alone if the interval says so, which a resume repeats") {
  const VocabularyRuns runs(R"(,"eviction":{"interval":0,"steps_to_live":3})");
  const Words snapshots = {"--set", "solver.snapshot=7", "--metrics", runs.run() / "m.jsonl"};
  const auto whole = runs.saved({}, "[[0]]", 14, snapshots);
  const auto events = events_in(runs.run() / "m.jsonl", "vocabulary");
  REQUIRE(events.size() == 3);  // two snapshots, and the end
  CHECK(events[0]["iter"] == 7);
  CHECK(events[0]["layers"][0]["expired"] > 0);
  CHECK(events[1]["iter"] == 14);
  CHECK(events[1]["layers"][0]["expired"] > events[0]["layers"][0]["expired"]);
  (void)runs.saved({}, "[[0]]", 7, {}, "half");
  CHECK((runs.saved({}, "[[0]]", 14, {"--resume", runs.run() / "half"}) == whole));
}

TEST_CASE("a full table need not end a run", "[no-tsan]") {
  for (const Words& environment : {Words{}, kFourGpus})
    for (const char* ranks : {"[[0]]", "[[0,1]]"})
      for (const bool evicts : {false, true}) {
        if (!environment.empty() && ranks == std::string("[[0,1]]") && !evicts) continue;
        INFO(ranks << (environment.empty() ? "" : " of GPUs")
                   << (evicts ? ", evict" : ", default"));
        const VocabularyRuns runs(evicts ? R"(,"when_full":"evict","eviction":{"interval":2})"
                                         : R"(,"when_full":"default")",
                                  70);
        const Words outputs = {"--metrics", runs.run() / "m.jsonl", "--report",
                               runs.run() / "report.html"};
        const auto saved = runs.saved(environment, ranks, 14, outputs);
        size_t rows = 0;
        for (const auto& [name, values] : saved)
          if (name.ends_with(".keys")) rows += values.size();
        const size_t most = ranks == std::string("[[0]]") ? 70 : 140;
        CHECK(rows <= most);
        CHECK(rows >= most * 3 / 4);
        const auto events = events_in(runs.run() / "m.jsonl", "vocabulary");
        REQUIRE(events.size() == (evicts ? 8u : 1u));
        const auto& last = events.back()["layers"][0];
        CHECK(last["layer"] == "emb");
        CHECK(last["rows"] == rows);
        CHECK(last["refused"] > 0);
        CHECK((last["displaced"] > 0) == evicts);
        CHECK(last["inserted"] == last["rows"].get<int>() + last["displaced"].get<int>());
        check_contains(read_text(runs.run() / "report.html"),
                       {"Vocabulary of hash tables", "requests without a row"});
      }
}

TEST_CASE("fewer ranks take the rows of many that were used last, if a full table evicts",
          "[no-tsan]") {
  const VocabularyRuns runs(R"(,"when_full":"evict","eviction":{"interval":2})", 100);
  const auto four = runs.saved({}, "[[0,1,2,3]]", 14, {}, "four");
  for (const Words& environment : {Words{}, kFourGpus}) {
    INFO((environment.empty() ? "CPU" : "GPU"));
    const auto read = runs.train(environment, "[[0]]", 14,
                                 {"--resume", runs.run() / "four", "--save", runs.run() / "one"});
    REQUIRE(read.code == 0);
    check_contains(read.err, {"of \"emb\" in", "on rank 0 of 1", "the least recently used leave"});
    const auto one = everything(runs.run() / "one");
    size_t rows = 0;
    float first_kept = 1e9f, last_left = 0;
    for (const auto& [name, keys] : one) {
      if (!name.ends_with(".keys")) continue;
      rows += keys.size();
      const std::string table = name.substr(0, name.size() - 5);
      const auto& all = four.at(name);
      for (const char* part : {"", ".accumulator", ".uses"}) {
        const std::string tensor = table + part;
        if (one.count(tensor) == 0) continue;
        const auto width = static_cast<std::ptrdiff_t>(one.at(tensor).size() / keys.size());
        for (size_t i = 0; i < all.size(); ++i) {
          const auto at = static_cast<std::ptrdiff_t>(i);
          const auto kept = std::find(keys.begin(), keys.end(), all[i]);
          const auto row = four.at(tensor).begin() + at * width;
          if (kept != keys.end())
            CHECK(std::equal(row, row + width,
                             one.at(tensor).begin() + (kept - keys.begin()) * width));
          if (part != std::string(".uses")) continue;
          if (kept != keys.end())
            first_kept = std::min(first_kept, row[1]);
          else
            last_left = std::max(last_left, row[1]);
        }
      }
    }
    CHECK(rows == 80);
    CHECK(last_left <= first_kept);
    (void)runs.saved(environment, "[[0]]", 20, {"--resume", runs.run() / "four"});
    (void)runs.saved(environment, "[[0,1]]", 20, {"--resume", runs.run() / "four"});
  }
}

TEST_CASE("progress lines say which rows came and left") {
  const VocabularyRuns runs(kCountAndAge);
  const auto result = runs.train({}, "[[0]]", 20, {});
  REQUIRE(result.code == 0);
  check_contains(result.out + result.err,
                 {"iter 8  emb: ", " came and ", "unused (steps_to_live)", "rare (min_count)",
                  "keys counted without a row", "requests without a row"});
}

TEST_CASE("rules may change from a checkpoint to the next run") {
  const VocabularyRuns plain(""), rules(kCountAndAge);
  (void)plain.saved({}, "[[0]]", 10, {}, "plain");
  const auto kept = rules.saved({}, "[[0]]", 10, {"--resume", plain.run() / "plain"});
  for (const auto& [name, values] : kept)
    if (name.ends_with(".uses"))
      for (size_t i = 0; i < values.size(); i += 2) {
        CHECK(values[i] == 1);
        CHECK(values[i + 1] == 10);
      }
  (void)rules.saved({}, "[[0]]", 10, {}, "rules");
  const auto back = plain.saved({}, "[[0]]", 10, {"--resume", rules.run() / "rules"});
  CHECK(back.count("emb.table_2.keys") == 1);
  CHECK(back.count("emb.table_2.uses") == 0);
}

}  // namespace hlite::test
