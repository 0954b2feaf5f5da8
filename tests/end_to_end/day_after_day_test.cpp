// Data that come day after day: tables that grow with their vocabularies, and snapshots that are
// kept for a while.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/daily_folder.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kSchema = R"({"header": true,
  "label": {"column": "buys", "positive": "yes", "negative": ["no"]},
  "dense": [{"column": "age", "transform": "standardize"}, {"column": "price"}],
  "categorical": [{"column": "user"}, {"column": "kind"}, {"column": "item"}]
})";

// Users and items that come with each day, kinds that stay.
std::string csv_day(int day, int rows) {
  std::string text = "user,kind,item,age,price,buys\n";
  for (uint64_t i = 0; i < static_cast<uint64_t>(rows); ++i) {
    const auto draw = [&](uint64_t column, uint32_t below) {
      return random::word(static_cast<uint64_t>(day), column, i) % below;
    };
    const uint32_t user = static_cast<uint32_t>(7 * day) + draw(0, 30);
    text += fmt::format("u{},k{},i{},{},{},{}\n", user, draw(1, 3),
                        static_cast<uint32_t>(20 * day) + draw(2, 80), 20 + draw(3, 40), draw(4, 9),
                        (user % 2 == 0) == (draw(5, 100) < 80) ? "yes" : "no");
  }
  return text;
}

// Two days prepared, the second one continuing the first.
class TwoDays : public DailyFolder {
 public:
  TwoDays() {
    std::string text = daily_config_text(R"("num_epochs": 2, )");
    const std::string sizes = "[40, 5, 300]";
    text.replace(text.find(sizes), sizes.size(), R"("day_1/manifest.json")");
    text.replace(text.find(R"("check": "None")"), 0, R"("float_label_dense": true, )");
    write_text(*this / "config.json", text);
    write_text(*this / "schema.json", kSchema);
    write_text(*this / "1.csv", csv_day(1, 300));
    write_text(*this / "2.csv", csv_day(2, 200));
    prepare({"--train", *this / "1.csv", "--out", *this / "day_1"});
    prepare(
        {"--train", *this / "2.csv", "--out", *this / "day_2", "--continue-from", *this / "day_1"});
  }
  void prepare(const Changes& arguments) const {
    Changes command = {HLITE_CSV_PREP, "--quiet", "--schema", *this / "schema.json"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    REQUIRE(run_program(command).code == 0);
  }
  [[nodiscard]] std::vector<int64_t> rows(const std::string& day) const {
    return Json::parse(read_text(*this / (day + "/manifest.json")))["slot_size_array"];
  }
};

Changes on_day(const std::string& day, Changes changes) {
  changes.insert(changes.end(),
                 {"layers.data.source=" + day + "/train.bin",
                  "layers.emb.sparse_embedding_hparam.slot_size_array=" + day + "/manifest.json"});
  return changes;
}

const std::string kStill = "layers.emb.optimizer.adam_hparam.learning_rate=1e-30";

// Tensors in memory.
struct OwnTensors {
  std::vector<TensorRef> refs;
  std::vector<std::unique_ptr<std::vector<float>>> values;
  void add(const std::string& name, std::vector<int64_t> shape, std::vector<float> elements,
           DType dtype) {
    values.push_back(std::make_unique<std::vector<float>>(std::move(elements)));
    refs.push_back(
        {.name = name, .shape = std::move(shape), .data = values.back()->data(), .dtype = dtype});
  }
};

// The tensors of a file; tables of fewer rows than `full` has get the others from there, or zeros.
OwnTensors padded(const std::string& path, const std::string& full,
                  const std::map<std::string, int64_t>& rows) {
  const ReadFile file(path), other(full);
  const checkpoint::SafetensorsReader reader(file), initial(other);
  OwnTensors tensors;
  for (const auto& e : reader.tensors()) {
    std::vector<float> values(static_cast<size_t>((e.end - e.begin) / dtype_bytes(e.dtype)));
    if (e.dtype == DType::kU32) {
      const auto words = reader.read_words(e.name);
      std::memcpy(values.data(), words.data(), 4 * words.size());
    } else {
      reader.read(e.name, values);
    }
    std::vector<int64_t> shape = e.shape;
    const std::string table = e.name.substr(0, std::string("emb.table_0").size());
    if (const auto to = rows.find(table); to != rows.end() && e.dtype != DType::kU32) {
      std::vector<float> all(static_cast<size_t>(to->second * shape[1]), 0);
      if (e.name == table) initial.read(e.name, all);
      std::copy(values.begin(), values.end(), all.begin());
      values = std::move(all);
      shape[0] = to->second;
    }
    tensors.add(e.name, shape, std::move(values), e.dtype);
  }
  return tensors;
}

// Kinds of tables, by what is changed in the config.
std::vector<Changes> kinds() {
  const auto type = [](const std::string& name, const std::string& hparam) {
    return Changes{"layers.emb.type=" + name, "layers.emb.sparse_embedding_hparam={" + hparam +
                                                  R"("embedding_vec_size":4,"combiner":0})"};
  };
  return {{},
          type("LocalizedSlotSparseEmbeddingOneHot", ""),
          type("LocalizedSlotSparseEmbeddingOneHot", R"("sharding":"row",)"),
          type("LocalizedSlotSparseEmbeddingOneHot", R"("sharding":"auto",)"),
          type("LocalizedSlotSparseEmbeddingHash", "")};
}

}  // namespace

TEST_CASE("the run of the next day is that of tables which were padded by hand",
          "[slow][release-only]") {
  const TwoDays days;
  const std::vector<int64_t> rows = days.rows("day_2");
  REQUIRE(rows[0] > days.rows("day_1")[0]);
  REQUIRE(rows[2] > days.rows("day_1")[2]);
  for (const Changes& kind : kinds()) {
    if (kSanitized && !kind.empty()) continue;
    for (const std::string& topology : daily_topologies()) {
      Changes changes = kind;
      changes.push_back(topology);
      INFO(fmt::format("{}", fmt::join(changes, " ")));
      std::map<std::string, int64_t> of_table;
      for (size_t t = 0; t < rows.size(); ++t) of_table[fmt::format("emb.table_{}", t)] = rows[t];
      const Changes first = on_day("day_1", changes), second = on_day("day_2", changes);
      days.train(first, {"--save", days / "one", "--export", days / "one.w"});
      // A table's initial values, and the state of a row that was never updated: zeros.
      Changes still = second;
      still.push_back(kStill);
      days.train(still, {"--export", days / "initial.w"});

      checkpoint::CheckpointMeta meta = checkpoint::read_manifest(days / "one");
      CHECK(meta.iteration == 20);
      meta.data_position = 0;
      meta.trained_on = checkpoint::trained_on(days / "initial.w");
      if (read_weights(days / "one.w").contains("emb.table_0.keys"))
        of_table.clear();  // a row is added when its key comes
      const OwnTensors weights =
          padded(days / "one/weights.safetensors", days / "initial.w", of_table);
      const OwnTensors states =
          padded(days / "one/optimizer.safetensors", days / "initial.w", of_table);
      checkpoint::save_checkpoint(days / "padded", meta, weights.refs, states.refs);
      days.train(second, {"--resume", days / "padded", "--save", days / "want", "--export",
                          days / "want.w"});
      days.train(second, {"--resume", days / "one", "--grow", "--save", days / "two", "--export",
                          days / "two.w"});
      CHECK((read_text(days / "two.w") == read_text(days / "want.w")));
      CHECK((everything(days / "two") == everything(days / "want")));
      CHECK(checkpoint::read_manifest(days / "two").iteration == 20 + 14);

      // Rows of the first day begin with what they had at its end.
      days.train(still, {"--resume", days / "one", "--grow", "--export", days / "still.w"});
      const Tensors before = read_weights(days / "one.w"), after = read_weights(days / "still.w");
      for (const auto& [table, count] : of_table) {
        const std::vector<float>& old = before.at(table);
        std::vector<float> now = after.at(table);
        CHECK(std::ssize(now) == 4 * count);
        now.resize(old.size());
        CHECK(now == old);
      }
    }
  }
}

TEST_CASE("a run that is interrupted on the next day goes on there") {
  const TwoDays days;
  const Changes second = on_day("day_2", {});
  days.train(on_day("day_1", {}), {"--save", days / "one"});
  days.train(second, {"--resume", days / "one", "--grow", "--export", days / "want.w"});
  Changes shorter = second;
  shorter.push_back("solver.num_epochs=1");
  days.train(shorter, {"--resume", days / "one", "--grow", "--save", days / "half"});
  CHECK(checkpoint::read_manifest(days / "half").data_position == 7);
  // With --grow or without: these are the data of the checkpoint.
  for (const Changes& more : {Changes{}, Changes{"--grow"}}) {
    Changes arguments = {"--resume", days / "half", "--export", days / "got.w"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    days.train(second, arguments);
    CHECK((read_text(days / "got.w") == read_text(days / "want.w")));
  }
}

TEST_CASE("tables on a disk grow as tables in memory do", "[slow]") {
  const TwoDays days;
  for (const std::string& topology : daily_topologies()) {
    INFO(topology);
    const auto changes = [&](const std::string& day, Changes more) {
      more.insert(more.end(), {topology, "solver.batchsize=8", "solver.batchsize_eval=8",
                               "layers.emb.optimizer.update_type=Local",
                               "layers.emb.type=LocalizedSlotSparseEmbeddingOneHot"});
      return on_day(day, more);
    };
    // Two batches: the least that a cache must hold.
    const auto on_disk = [&](const std::string& gb) {
      return Changes{
          fmt::format(R"(solver.embedding_memory={{"host_gb":{},"disk":"{}"}})", gb, days / ".")};
    };
    const ProgramResult refused = days.run(changes("day_2", on_disk("1e-6")), {});
    INFO(refused.err);
    std::smatch least;
    REQUIRE(std::regex_search(refused.err, least, std::regex("at least ([0-9.]+) GB")));
    const Changes disk = on_disk(least[1]);
    days.train(changes("day_1", {}), {"--save", days / "memory"});
    days.train(changes("day_1", disk), {"--save", days / "disk"});
    // A row that was never trained is not in the checkpoint of a disk: its initial value is new.
    for (const char* from : {"memory", "disk"}) {
      INFO("from " << from);
      days.train(changes("day_2", {}),
                 {"--resume", days / from, "--grow", "--export", days / "want.w"});
      days.train(changes("day_2", disk),
                 {"--resume", days / from, "--grow", "--export", days / "got.w"});
      CHECK((read_text(days / "got.w") == read_text(days / "want.w")));
    }
  }
}

TEST_CASE("tables that have grown need --grow, and data that continue those of the checkpoint") {
  const TwoDays days;
  days.train(on_day("day_1", {}), {"--save", days / "one"});
  days.train(on_day("day_2", {}), {"--resume", days / "one", "--grow", "--save", days / "two"});
  check_contains(days.message(on_day("day_2", {}), {"--resume", days / "one"}),
                 {"day_2/manifest.json", "continue", "--grow"});
  // Back to the first day: its data know less than the checkpoint.
  check_contains(days.message(on_day("day_1", {}), {"--resume", days / "two", "--grow"}),
                 {"expected data prepared as", "vocabulary of slots"});
  check_contains(
      days.message(on_day("day_1", {}), {"--resume", days / "two", "--grow", "--allow-other-data"}),
      {"emb.table_0", "cannot shrink"});
  // Another preparation of the same file is no continuation.
  days.prepare({"--train", days / "2.csv", "--out", days / "other"});
  check_contains(days.message(on_day("other", {}), {"--resume", days / "one", "--grow"}),
                 {"other/manifest.json", "expected data prepared as", "found others"});
  // Without manifests nothing says what continues what.
  fs::create_directory(days / "bare");
  fs::copy_file(days / "day_2/train.bin", days / "bare/train.bin");
  const auto sizes = [](const std::vector<int64_t>& rows) {
    return fmt::format("layers.emb.sparse_embedding_hparam.slot_size_array=[{}]",
                       fmt::join(rows, ","));
  };
  const Changes bare = {"layers.data.source=bare/train.bin", sizes(days.rows("day_2"))};
  check_contains(days.message(bare, {"--resume", days / "one", "--grow"}),
                 {"--grow", "without a manifest", "--allow-other-data"});
  check_contains(days.message(bare, {"--resume", days / "one"}), {"emb.table_0", "--grow"});
  days.train(bare, {"--resume", days / "one", "--grow", "--allow-other-data"});
  CHECK(days.run({}, {"--grow"}).code == kExitConfig);
}

TEST_CASE("keep_checkpoints keeps the newest snapshots, and the one that the run went on from") {
  const SmallRun run;
  const auto train = [&](int last, const Changes& more = {}) {
    Changes arguments = {"--quiet", "--device", "cpu", "--threads", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(run.train(arguments, {"solver.snapshot=5", "solver.keep_checkpoints=2",
                                  "solver.eval_interval=0", fmt::format("solver.max_iter={}", last),
                                  "solver.snapshot_prefix=" + (run / "snap_")})
                .code == 0);
  };
  const auto left = [&] {
    std::vector<int> found;
    for (int i = 0; i <= 60; ++i)
      if (fs::exists(run / fmt::format("snap_{}", i))) found.push_back(i);
    return found;
  };
  train(22);
  CHECK(left() == std::vector<int>{15, 20});
  // A process was killed before it removed anything: the next one removes its files.
  train(22, {"--set", "solver.keep_checkpoints=4", "--resume", run / "snap_15"});
  train(42, {"--resume", run / "snap_15"});
  CHECK(left() == std::vector<int>{15, 35, 40});
  train(52, {"--resume", run / "snap_40"});
  CHECK(left() == std::vector<int>{40, 45, 50});
  // Another run's are left alone.
  train(22);
  CHECK(left() == std::vector<int>{15, 20, 40, 45, 50});
}

}  // namespace hlite::test
