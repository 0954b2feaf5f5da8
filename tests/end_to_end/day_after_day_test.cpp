// Data that come day after day: tables that grow with their vocabularies, a folder that is
// followed, and snapshots that are kept for a while.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/sanitized.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Changes = std::vector<std::string>;
using Json = nlohmann::json;

// The small config without evaluations, in the order of the file, with `length` ("", or a member
// with its comma) in the place of max_iter.
std::string config_text(const std::string& length) {
  std::string text = small_config();
  const auto replace = [&](const std::string& what, const std::string& by) {
    REQUIRE(text.find(what) != std::string::npos);
    text.replace(text.find(what), what.size(), by);
  };
  replace(R"("max_iter": 200, )", length);
  replace(R"("eval_batches": 10, "eval_interval": 50,)", "");
  replace(R"(, "eval_source": "eval.bin")", "");
  replace(R"("shuffle": true)", R"("shuffle": false)");
  return text;
}

class Folder {
 public:
  [[nodiscard]] std::string operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] Changes command(Changes changes, const Changes& arguments) const {
    Changes command = {HLITE_TRAIN, "--config", folder_ / "config.json", "--threads", "2",
                       "--device",  "cpu"};
    for (const std::string& change : changes) command.insert(command.end(), {"--set", change});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }
  [[nodiscard]] ProgramResult run(const Changes& changes, const Changes& arguments) const {
    return run_program(command(changes, arguments), folder_.path());
  }
  void train(const Changes& changes, const Changes& arguments) const {
    const ProgramResult result = run(changes, arguments);
    INFO(result.out << result.err);
    REQUIRE(result.code == 0);
  }
  [[nodiscard]] std::string message(const Changes& changes, const Changes& arguments) const {
    const ProgramResult result = run(changes, arguments);
    CHECK(result.code == kExitData);
    return result.err;
  }
  [[nodiscard]] std::vector<Json> events(const std::string& kind,
                                         const std::string& metrics = "metrics.jsonl") const {
    std::vector<Json> found;
    std::istringstream lines(read_text(folder_ / metrics));
    for (std::string line; std::getline(lines, line);)
      if (Json event = Json::parse(line); event["event"] == kind) found.push_back(std::move(event));
    return found;
  }

 private:
  TemporaryDirectory folder_;
};

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
class TwoDays : public Folder {
 public:
  TwoDays() {
    std::string text = config_text(R"("num_epochs": 2, )");
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
    const ProgramResult result = run_program(command);
    INFO(result.err);
    REQUIRE(result.code == 0);
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
const Changes kTopologies = {gpu("[0]"), gpu("[[0,1]]"), gpu("[[0,1],[2,3]]")};

}  // namespace

TEST_CASE("the run of the next day is that of tables which were padded by hand") {
  const TwoDays days;
  const std::vector<int64_t> rows = days.rows("day_2");
  REQUIRE(rows[0] > days.rows("day_1")[0]);
  REQUIRE(rows[2] > days.rows("day_1")[2]);
  for (const Changes& kind : kinds()) {
    if (kSanitized && !kind.empty()) continue;
    for (const std::string& topology : kTopologies) {
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

TEST_CASE("tables on a disk grow as tables in memory do") {
  const TwoDays days;
  for (const std::string& topology : kTopologies) {
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

namespace {

// A folder "stream" to follow, and files of whole batches to put there.
class Stream : public Folder {
 public:
  explicit Stream(int files = 3) : files_(static_cast<size_t>(files)) {
    std::string text = config_text("");
    // In a folder no row is known to be frequent, and copies of rows would sum in another order.
    const std::string hybrid = "HybridSparseEmbedding", source = R"("source": "train.bin")";
    text.replace(text.find(hybrid), hybrid.size(), "LocalizedSlotSparseEmbeddingOneHot");
    write_text(*this / "whole.json", text);
    text.replace(text.find(source), source.size(), R"("source": "stream", "follow": true)");
    write_text(*this / "config.json", text);
    fs::create_directory(*this / "stream");
    for (int i = 0; i < files; ++i)
      files_[static_cast<size_t>(i)] = small_samples(32 * batches(i), static_cast<uint64_t>(i));
  }
  // Batches in a file.
  [[nodiscard]] static int batches(int file) { return 4 + file; }
  [[nodiscard]] static std::string name(int file) { return fmt::format("day_{}.bin", file); }
  [[nodiscard]] const std::string& bytes(int file) const {
    return files_[static_cast<size_t>(file)];
  }
  void put(int file) const {
    write_text(*this / ("stream/." + name(file)), bytes(file));
    fs::rename(*this / ("stream/." + name(file)), *this / ("stream/" + name(file)));
  }
  void end() const { write_text(*this / "stream/_END", ""); }
  // Waits until the metrics file has so many events of a kind, or the program has ended.
  void await_events(const RunningProgram& program, const std::string& kind, size_t count) const {
    while (program.running() &&
           (!fs::exists(*this / "metrics.jsonl") || whole_events(kind) < count))
      usleep(1000);
  }
  [[nodiscard]] size_t whole_events(const std::string& kind) const {
    const std::string text = read_text(*this / "metrics.jsonl");
    const std::string begin = R"({"event":")" + kind + "\"";
    size_t count = 0;
    for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1))
      count += text.find('\n', at) != std::string::npos;
    return count;
  }

 private:
  std::vector<std::string> files_;
};

}  // namespace

TEST_CASE("a folder is trained on as one file would be, each file scored before it", "[follow]") {
  for (const std::string& topology : kTopologies) {
    INFO(topology);
    const Stream stream;
    const Changes changes = {topology};
    write_text(stream / "train.bin", stream.bytes(0) + stream.bytes(1) + stream.bytes(2));
    const auto whole = [&](Changes more, const Changes& arguments) {
      Changes command = {HLITE_TRAIN, "--config", stream / "whole.json",
                         "--threads", "2",        "--device",
                         "cpu",       "--set",    topology};
      for (const std::string& change : more) command.insert(command.end(), {"--set", change});
      command.insert(command.end(), arguments.begin(), arguments.end());
      const ProgramResult result = run_program(command);
      INFO(result.err);
      REQUIRE(result.code == 0);
    };
    whole({}, {"--export", stream / "want.w"});
    for (int i = 0; i < 3; ++i) stream.put(i);
    write_text(stream / "stream/readme.txt", "not data");
    stream.end();
    stream.train(changes, {"--export", stream / "got.w", "--metrics", stream / "metrics.jsonl"});
    CHECK((read_text(stream / "got.w") == read_text(stream / "want.w")));
    const auto scored = stream.events("progressive");
    REQUIRE(scored.size() == 3);
    CHECK(stream.events("end")[0]["reason"] == "end_of_data");
    stream.train({topology, "solver.embedding_memory=auto"}, {"--export", stream / "auto.w"});
    CHECK((read_text(stream / "auto.w") == read_text(stream / "want.w")));
    // The score of the second file: that of a model of the first one.
    write_text(stream / "train.bin", stream.bytes(0));
    whole({"layers.data.test_source=stream/" + Stream::name(1)},
          {"--metrics", stream / "one.jsonl"});
    const Json test = stream.events("test", "one.jsonl")[0];
    for (size_t i = 0; i < 3; ++i) CHECK(scored[i]["file"] == Stream::name(static_cast<int>(i)));
    CHECK(scored[0]["iter"] == 0);
    CHECK(scored[1]["iter"] == 4);
    CHECK(scored[2]["iter"] == 9);
    CHECK(scored[1]["auc"] == test["auc"]);
    CHECK(scored[1]["loss"] == test["loss"]);
    CHECK(scored[1]["samples"] == 32 * 5);

    // Ended at any iteration, at the end of a file too, and resumed.
    for (const int stop : {2, 4, 7, 9}) {
      INFO("stopped after " << stop);
      stream.train({topology, fmt::format("solver.max_iter={}", stop)},
                   {"--save", stream / "part"});
      const auto meta = checkpoint::read_manifest(stream / "part");
      CHECK(meta.followed.file == Stream::name(stop <= 4 ? 0 : 1));
      fs::remove(stream / "metrics.jsonl");
      stream.train(changes, {"--resume", stream / "part", "--export", stream / "got.w", "--metrics",
                             stream / "metrics.jsonl"});
      CHECK((read_text(stream / "got.w") == read_text(stream / "want.w")));
      const auto rest = stream.events("progressive");
      REQUIRE(rest.size() == (stop <= 4 ? 2 : 1));
      const Json& last = rest.back();
      CHECK(last["auc"] == scored[2]["auc"]);
      CHECK(last["loss"] == scored[2]["loss"]);
    }
    // A file that is done need not be there any more; one that is not must be.
    stream.train({topology, "solver.max_iter=4"}, {"--save", stream / "part"});
    fs::remove(stream / ("stream/" + Stream::name(0)));
    stream.train(changes, {"--resume", stream / "part", "--export", stream / "got.w"});
    CHECK((read_text(stream / "got.w") == read_text(stream / "want.w")));
    stream.train({topology, "solver.max_iter=7"},
                 {"--save", stream / "part", "--resume", stream / "part"});
    write_text(stream / ("stream/" + Stream::name(1)), stream.bytes(2));
    check_contains(stream.message(changes, {"--resume", stream / "part"}),
                   {"day_1.bin", "expected 5 batches", "found 6"});
    fs::remove(stream / ("stream/" + Stream::name(1)));
    check_contains(stream.message(changes, {"--resume", stream / "part"}), {"day_1.bin"});
  }
}

TEST_CASE("files are taken as they come, and a run that waits ends by a signal after saving",
          "[follow]") {
  for (const std::string& topology : {kTopologies[0], kTopologies[1]}) {
    INFO(topology);
    const Stream stream;
    const Changes arguments = {"--metrics", stream / "metrics.jsonl", "--save", stream / "saved"};
    RunningProgram program(stream.command({topology, "solver.display=1"}, arguments), stream / ".");
    stream.put(0);
    stream.await_events(program, "train", 4);
    stream.put(2);
    stream.await_events(program, "train", 10);
    program.signal(SIGTERM);
    const ProgramResult result = program.wait();
    INFO(result.err);
    CHECK(result.code == kExitInterrupted);
    const auto meta = checkpoint::read_manifest(stream / "saved");
    CHECK(meta.iteration == 10);
    CHECK(meta.followed.file == Stream::name(2));
    CHECK(stream.events("progressive").size() == 2);
    CHECK(stream.events("end")[0]["reason"] == "interrupted");

    // Names must come in order: a run says so of a file that it passes over.
    fs::remove(stream / "metrics.jsonl");
    RunningProgram again(stream.command({topology, "solver.display=1"}, arguments), stream / ".");
    stream.await_events(again, "train", 10);
    stream.put(1);
    stream.end();
    const ProgramResult passed = again.wait();
    CHECK(passed.code == 0);
    check_contains(passed.err, {"day_1.bin", "after day_2.bin had been read", "is not"});
    CHECK(stream.events("progressive").size() == 2);
  }
}

namespace {

// Keys that come twice get rows, and rows that are not used leave.
const Changes kForgets = {
    "layers.emb.type=DistributedSlotSparseEmbeddingHash",
    R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":"sum",)"
    R"("max_vocabulary_size_per_gpu":1000,"admission":{"type":"count","threshold":2},)"
    R"("eviction":{"interval":3,"steps_to_live":6},"default_vector":"zeros"})"};

// The newest snapshot in a folder, as arguments; none if there is none.
Changes resumed_from_newest(const Folder& folder) {
  int newest = 0;
  for (const auto& entry : fs::directory_iterator(folder / "."))
    if (const std::string name = entry.path().filename();
        std::regex_match(name, std::regex("snap_[0-9]+")))
      newest = std::max(newest, std::stoi(name.substr(5)));
  if (newest == 0) return {};
  return {"--resume", folder / fmt::format("snap_{}", newest)};
}

}  // namespace

TEST_CASE("ten days are the same in one run, in ten, and in runs that are killed twenty times",
          "[follow]") {
  constexpr int kDays = 10;
  for (const std::string& topology : {kTopologies[0], kTopologies[1]}) {
    INFO(topology);
    Changes changes = kForgets;
    changes.push_back(topology);
    const Stream whole(kDays);
    for (int day = 0; day < kDays; ++day) whole.put(day);
    whole.end();
    whole.train(changes, {"--save", whole / "saved", "--metrics", whole / "metrics.jsonl"});
    const Tensors want = everything(whole / "saved");
    const Json counted = whole.events("vocabulary").back()["layers"][0];
    CHECK(counted["expired"] > 100);
    CHECK(counted["rows"] > 100);

    const Stream daily(kDays);
    daily.end();
    for (int day = 0; day < kDays; ++day) {
      daily.put(day);
      Changes arguments = {"--save", daily / fmt::format("day_{}", day)};
      if (day > 0)
        arguments.insert(arguments.end(), {"--resume", daily / fmt::format("day_{}", day - 1)});
      daily.train(changes, arguments);
    }
    CHECK((everything(daily / "day_9") == want));

    // Twice a day the run is killed, at any time: while it trains, saves, or waits for a file that
    // comes before it starts or after. The first run of a day saves once, so that days pass.
    const Stream killed(kDays);
    Changes often = changes;
    often.push_back("solver.snapshot=2");
    for (uint64_t kill = 0; kill < 2 * kDays; ++kill) {
      const int day = static_cast<int>(kill / 2);
      if (kill % 4 == 0) killed.put(day);
      const Changes newest = resumed_from_newest(killed);
      RunningProgram program(killed.command(often, newest), killed / ".");
      if (kill % 4 == 2) killed.put(day);
      if (kill % 2 == 0)
        while (program.running() && resumed_from_newest(killed) == newest) usleep(1000);
      usleep(random::word(5, 0, kill) % 60000);
      INFO("kill " << kill << program.error_so_far());
      REQUIRE(program.running());
      program.signal(SIGKILL);
      CHECK(program.wait().code == 128 + SIGKILL);
    }
    killed.end();
    Changes rest = resumed_from_newest(killed);
    rest.insert(rest.end(), {"--save", killed / "saved"});
    killed.train(changes, rest);
    CHECK((everything(killed / "saved") == want));
  }
}

TEST_CASE("a folder that cannot be followed is refused", "[follow]") {
  const Stream stream;
  const auto refused = [&](const Changes& changes, const Changes& arguments = {}) {
    const ProgramResult result = stream.run(changes, arguments);
    CHECK(result.code == kExitConfig);
    return result.err;
  };
  check_contains(refused({"solver.num_epochs=2"}), {"num_epochs", "follow"});
  check_contains(refused({"layers.data.async_param.shuffle=true"}), {"shuffle", "follow"});
  check_contains(refused({"layers.data.shuffle_samples=true"}), {"shuffle_samples", "follow"});
  check_contains(refused({"layers.data.num_samples=10"}), {"num_samples", "follow"});
  check_contains(stream.message({"layers.data.source=config.json"}, {}), {"a folder", "a file"});
  check_contains(stream.message({"layers.data.source=none"}, {}), {"a folder", "nothing"});
  stream.put(0);
  stream.end();
  stream.train({"solver.max_iter=2"}, {"--save", stream / "saved"});
  write_text(stream / "train.bin", stream.bytes(0));
  check_contains(refused({"layers.data.follow=false", "layers.data.source=train.bin"},
                         {"--resume", stream / "saved"}),
                 {"follow", "day_0.bin"});
  const ProgramResult check = stream.run({}, {"--check"});
  CHECK(check.code == 0);
  check_contains(check.out, {"stream: followed"});
}

TEST_CASE("keep_checkpoints keeps the newest snapshots, and the one that the run went on from") {
  const SmallRun run;
  const auto train = [&](int last, const Changes& more = {}) {
    Changes arguments = {"--quiet",
                         "--device",
                         "cpu",
                         "--threads",
                         "2",
                         "--set",
                         "solver.snapshot=5",
                         "--set",
                         "solver.keep_checkpoints=2",
                         "--set",
                         "solver.eval_interval=0",
                         "--set",
                         fmt::format("solver.max_iter={}", last),
                         "--set",
                         "solver.snapshot_prefix=" + (run / "snap_")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run.train(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
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
