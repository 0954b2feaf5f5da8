// Histories: a position of one is a slot, so a run has the numbers of the same run with a slot for
// every position, and golden runs are those of an independent implementation.
#include <regex>

#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/small_run.h"

namespace hlite::test {
namespace {

constexpr int64_t kPositions = 5, kItems = 40, kCategories = 7, kWidth = 4;

// Samples of an item, its category, and up to kPositions of each before: position by position, or
// slot by slot.
std::string history_samples(int64_t n, uint64_t seed, bool by_position) {
  std::string bytes;
  const auto put = [&](uint32_t v) { bytes.append(reinterpret_cast<const char*>(&v), sizeof(v)); };
  for (uint64_t i = 0; i < static_cast<uint64_t>(n); ++i) {
    const auto draw = [&](uint64_t j, uint32_t below) { return random::word(seed, j, i) % below; };
    const uint32_t item = draw(0, kItems), length = draw(1, kPositions + 1);
    put((item % 2 == 0) == (draw(2, 100) < 80) ? 1 : 0);
    put(0);  // the dense feature
    put(item);
    put(item % kCategories);
    for (int64_t k = 0; k < 2 * kPositions; ++k) {
      const int64_t position = by_position ? k / 2 : k % kPositions;
      const bool category = by_position ? k % 2 == 1 : k >= kPositions;
      const uint32_t before = draw(10 + static_cast<uint64_t>(position), kItems);
      put(position < length ? (category ? before % kCategories : before) : 0xffffffff);
    }
  }
  return bytes;
}

using Json = nlohmann::json;

Json repeated(const std::vector<int64_t>& of, int64_t times) {
  Json list = Json::array();
  for (int64_t i = 0; i < times; ++i)
    for (const int64_t one : of) list.push_back(one);
  return list;
}

// The two spellings of one model.
Json history_config(const std::string& type, bool by_position) {
  Json config = Json::parse(small_config());
  const Json slots = {{"nnz_per_slot", 1}, {"is_fixed_length", false}, {"type", "LocalizedSlot"}};
  const auto input = [&](const char* top, int64_t count, Json more) {
    more.update({{"top", top}, {"slot_num", count}});
    return more;
  };
  Json& data = config["layers"][0];
  data["async_param"]["shuffle"] = false;
  data["dense"]["dense_dim"] = 1;
  const int64_t times = by_position ? kPositions + 1 : 2;
  Json tables = {{"embedding_vec_size", kWidth},
                 {"slot_size_array", repeated({kItems, kCategories}, times)},
                 {"slot_tables", repeated({0, 1}, times)}};
  if (type.ends_with("Hash")) tables["max_vocabulary_size_per_gpu"] = 100;
  Json emb = {{"name", "emb"}, {"type", type}};
  Json flat = Json::array();
  constexpr int64_t kAll = 2 * kWidth * (kPositions + 1);
  if (by_position) {
    data["sparse"] = {input("all", 2 * (kPositions + 1), slots)};
    emb.update({{"bottom", "all"}, {"top", "vectors"}});
    flat = {{{"type", "Reshape"}, {"bottom", "vectors"}, {"top", "flat"}, {"leading_dim", kAll}}};
  } else {
    data["sparse"] = {input("target", 2, slots), input("history", 2, {{"max_len", kPositions}})};
    emb.update({{"bottom", {"target", "history"}}, {"top", {"t", "h"}}});
    tables["combiner"] = "concat";
    for (const auto& [name, width] :
         {std::pair("t", 2 * kWidth), std::pair("h", kAll - 2 * kWidth)})
      flat.push_back({{"type", "Reshape"},
                      {"bottom", name},
                      {"top", std::string(name) + "_flat"},
                      {"leading_dim", width}});
    flat.push_back({{"type", "Concat"}, {"bottom", {"t_flat", "h_flat"}}, {"top", "flat"}});
  }
  emb["sparse_embedding_hparam"] = tables;
  flat.push_back({{"type", "Concat"}, {"bottom", {"flat", "dense"}}, {"top", "x"}});
  flat.push_back({{"type", "InnerProduct"},
                  {"bottom", "x"},
                  {"top", "logit"},
                  {"fc_param", {{"num_output", 1}}}});
  flat.push_back(
      {{"type", "BinaryCrossEntropyLoss"}, {"bottom", {"logit", "label"}}, {"top", "loss"}});
  config["layers"] = {data, emb};
  config["layers"].insert(config["layers"].end(), flat.begin(), flat.end());
  return config;
}

// The history of history_config(type, false) in two inputs, which are told to be one by the name of
// their lengths; their vectors are put side by side.
Json in_two_inputs(Json config) {
  Json& sparse = config["layers"][0]["sparse"];
  Json part = sparse[1];
  part.update({{"slot_num", 1}, {"lengths", "length"}});
  Json other = part;
  other["top"] = "categories";
  sparse = {sparse[0], part, other};
  Json& emb = config["layers"][1];
  emb["bottom"] = {"target", "history", "categories"};
  emb["top"] = {"t", "h_items", "h_categories"};
  config["layers"].insert(
      config["layers"].begin() + 2,
      Json{{"type", "Concat"}, {"axis", 2}, {"bottom", {"h_items", "h_categories"}}, {"top", "h"}});
  return config;
}

Tensors trained_on_histories(const std::string& type, bool by_position, const Words& arguments,
                             const Words& environment = {}, bool apart = false) {
  const TemporaryDirectory directory;
  const Json config = history_config(type, by_position);
  write_text(directory / "config.json", (apart ? in_two_inputs(config) : config).dump());
  write_text(directory / "train.bin", history_samples(500, 1, by_position));
  write_text(directory / "eval.bin", history_samples(333, 2, by_position));
  const auto result =
      run_program(environment +
                  Words{HLITE_TRAIN, "--config", directory / "config.json", "--quiet", "--threads",
                        "2", "--save", directory / "out", "--set", "solver.max_iter=12", "--set",
                        "solver.eval_interval=0"} +
                  arguments);
  INFO(type << " " << by_position << " " << fmt::format("{}", fmt::join(arguments, " ")));
  INFO(result.err);
  REQUIRE(result.code == 0);
  return everything(directory / "out");
}

constexpr const char* kHistoryTypes[] = {
    "HybridSparseEmbedding", "LocalizedSlotSparseEmbeddingOneHot",
    "LocalizedSlotSparseEmbeddingHash", "DistributedSlotSparseEmbeddingHash"};
const std::string kHistoryAdam =
    R"(optimizer={"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01}})";

}  // namespace

TEST_CASE("a history has the bits of a slot for each position, in all embedding types") {
  for (const char* type : kHistoryTypes)
    for (const char* ranks : {"[0]", "[[0,1,2]]"}) {
      const Words arguments =
          changes_of({gpu(ranks), kHistoryAdam, "solver.batchsize=48", "solver.batchsize_eval=48"});
      const Tensors by_position = trained_on_histories(type, true, arguments);
      CHECK(trained_on_histories(type, false, arguments) == by_position);
      CHECK(trained_on_histories(type, false, arguments, {}, true) == by_position);
    }
}

TEST_CASE("a history has the bits of a slot for each position on GPUs and beyond memory",
          "[slow][release-only]") {
  const Words base = {kHistoryAdam, "solver.batchsize=48", "solver.batchsize_eval=48"};
  for (const char* type : kHistoryTypes)
    for (const char* ranks : {"[0]", "[[0,1]]"}) {
      Words words = base;
      words.push_back(gpu(ranks));
      const Words arguments = changes_of(words) + Words{"--device", "cuda"};
      CHECK(trained_on_histories(type, false, arguments, kFourGpus) ==
            trained_on_histories(type, true, arguments, kFourGpus));
    }
  for (const char* input : {"own", "broadcast"}) {
    Words words = base;
    words.insert(words.end(), {gpu("[[0,1]]"), std::string("solver.input=") + input});
    CHECK(trained_on_histories(kHistoryTypes[0], false, changes_of(words)) ==
          trained_on_histories(kHistoryTypes[0], true, changes_of(words)));
  }
  const TemporaryDirectory disk;
  const Words memory =
      base +
      Words{fmt::format(R"(solver.embedding_memory={{"host_gb":0.03,"disk":"{}"}})", disk.path())};
  CHECK(trained_on_histories(kHistoryTypes[0], false, changes_of(memory)) ==
        trained_on_histories(kHistoryTypes[0], true, changes_of(memory)));
}

namespace {
constexpr const char* kHistoryRuns[] = {
    "din", "din/config_norm.json", "bst", "gru", "gru/config_raw.json", "ple", "hstu"};

// The changes that put a run on ranks of several nodes.
Words on_nodes(const std::string& name, const std::string& ranks) {
  if (ranks.find("],[") == std::string::npos) return {gpu(ranks)};
  Words more;
  const GoldenRun run(name.substr(0, name.find('/')));
  const Json config = Json::parse(read_text(run / "config.json"));
  for (const Json& layer : config["layers"])
    if (layer.contains("/sparse_embedding_hparam/communication_type"_json_pointer))
      more.push_back("layers." + layer["name"].get<std::string>() +
                     ".sparse_embedding_hparam.communication_type=IB_NVLink");
  more.push_back(gpu(ranks));
  return more;
}
}  // namespace

TEST_CASE("golden runs of histories and of two tasks are reproduced on one rank", "[no-tsan]") {
  for (const char* name : kHistoryRuns)
    for (const int threads : {1, 2}) check_run(name, threads);
}

TEST_CASE("golden runs of histories and of two tasks are reproduced on several ranks",
          "[no-tsan][slow][release-only]") {
  for (const char* name : kHistoryRuns) {
    for (const char* ranks : {"[[0,1]]", "[[0,1,2,3]]"}) check_run(name, 2, {gpu(ranks)});
    check_run(name, 1, on_nodes(name, "[[0],[1]]"), 2);
  }
}

TEST_CASE("golden runs of histories and of two tasks are reproduced on GPUs",
          "[no-tsan][slow][release-only]") {
  for (const char* name : {"din", "bst", "gru", "ple", "hstu"}) {
    Golden run(name);
    for (const char* ranks : {"[0]", "[[0,1],[2,3]]"}) {
      INFO(name << " " << ranks);
      Tensors got = run.weights(kFourGpus, "cuda", changes_of(on_nodes(name, ranks)));
      std::erase_if(got, [](const auto& tensor) {
        return tensor.first.find(".running_") != std::string::npos;
      });
      check_weights(got, run.expected());
    }
  }
}

namespace {

// A golden run, trained in small batches, whose rows are few of all.
class HistoryRuns {
 public:
  // `more`: arguments and an environment for all runs.
  explicit HistoryRuns(Words more = {}, Words environment = {}, const std::string& name = "din")
      : run_(name), more_(std::move(more)), environment_(std::move(environment)) {}
  [[nodiscard]] ProgramResult run(int iterations, const Words& arguments) const {
    return run_program(
        environment_ +
        Words{HLITE_TRAIN, "--config", run_ / "config.json", "--quiet", "--threads", "2"} +
        changes_of({kHistoryAdam, "solver.seed=3", "solver.batchsize=4", "solver.batchsize_eval=4",
                    "solver.eval_interval=0", fmt::format("solver.max_iter={}", iterations)}) +
        more_ + arguments);
  }
  // Saved as `name`, its weights exported as name.safetensors.
  void train(const std::string& name, int iterations, const Words& arguments = {}) const {
    REQUIRE(
        run(iterations,
            Words{"--save", run_ / name, "--export", run_ / (name + ".safetensors")} + arguments)
            .code == 0);
  }
  [[nodiscard]] Words resumed(const std::string& name) const { return {"--resume", run_ / name}; }
  // As little memory as tables may have.
  [[nodiscard]] Words least_memory(bool on_gpus) const {
    const auto memory = [&](const std::string& gb) {
      const std::string own = on_gpus
                                  ? fmt::format(R"({{"gpu_gb":{}}})", gb)
                                  : fmt::format(R"({{"host_gb":{},"disk":"{}"}})", gb, run_.path());
      return changes_of({"solver.embedding_memory=" + own});
    };
    std::string least = "1e-6";
    for (int embedding = 0; embedding < 2; ++embedding) {
      const std::string refused = run(1, memory(least)).err;
      std::smatch found;
      if (std::regex_search(refused, found, std::regex("at least ([0-9.]+) GB"))) least = found[1];
    }
    CHECK(least != "1e-6");
    return memory(least);
  }
  [[nodiscard]] std::string exported(const std::string& name) const {
    return read_text(run_ / (name + ".safetensors"));
  }
  [[nodiscard]] Tensors saved(const std::string& name) const { return everything(run_ / name); }
  [[nodiscard]] const GoldenRun& files() const { return run_; }

 private:
  const GoldenRun run_;
  const Words more_, environment_;
};

void check_beyond_memory(const HistoryRuns& run, bool on_gpus) {
  run.train("memory", 40);
  const Words least = run.least_memory(on_gpus);
  INFO(least.back());
  run.train("tiers", 40, least);
  CHECK((run.exported("tiers") == run.exported("memory")));
  run.train("half", 20, least);
  run.train("resumed", 40, least + run.resumed("half"));
  CHECK((run.exported("resumed") == run.exported("memory")));
  run.train("back", 40, run.resumed("half"));
  CHECK((run.saved("back") == run.saved("memory")));
}

}  // namespace

TEST_CASE("histories: tables beyond memory and a resumed run have the bits of a run in memory") {
  check_beyond_memory(HistoryRuns(), false);
  check_beyond_memory(HistoryRuns({}, {}, "hstu"), false);
}

TEST_CASE("histories: tables beyond memory on two ranks and on GPUs", "[slow][release-only]") {
  check_beyond_memory(HistoryRuns(changes_of({gpu("[[0,1]]")})), false);
  for (const char* ranks : {"[0]", "[[0,1]]"})
    check_beyond_memory(
        HistoryRuns(changes_of({gpu(ranks)}) + Words{"--device", "cuda"}, kFourGpus), true);
}

TEST_CASE("histories: deltas lead to the last save, and scores do not depend on the way to them") {
  const HistoryRuns din;
  const GoldenRun& files = din.files();
  din.train("0", 10);
  for (int day = 1; day < 3; ++day)
    din.train(fmt::format("{}", day), 10 * (day + 1),
              din.resumed(fmt::format("{}", day - 1)) + Words{"--save-delta", files / "deltas"} +
                  changes_of({fmt::format("solver.export_predictions_prefix={}", files / "p_"),
                              fmt::format("solver.eval_interval={}", 10 * (day + 1)),
                              "solver.eval_batches=375"}));
  REQUIRE(run_program({HLITE_MODEL_DELTA, "join", files / "deltas", "--base", files / "0", "--out",
                       files / "joined.safetensors"})
              .code == 0);
  CHECK(read_text(files / "joined.safetensors") == read_text(files / "2/weights.safetensors"));
  const auto scores = [&](const Words& arguments) {
    const auto result =
        run_program(Words{HLITE_PREDICT, "--out", "-", "--quiet", "--threads", "2"} + arguments);
    REQUIRE(result.code == 0);
    return result.out;
  };
  const Words parquet = {"--input", files / "eval.parquet"},
              norm = {"--input", files / "eval_list.txt", "--config", files / "config_norm.json"};
  const std::string want = scores(Words{"--model", files / "2"} + parquet);
  CHECK(want == "score\n" + read_text(files / "p_prediction"));
  CHECK(scores(Words{"--model", files / "0", "--delta", files / "deltas"} + parquet) == want);
  for (const char* batch : {"1", "7", "4096"})
    for (const Words& input : {parquet, norm})
      CHECK(scores(Words{"--model", files / "2", "--batch", batch} + input) == want);
}

}  // namespace hlite::test
