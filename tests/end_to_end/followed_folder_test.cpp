// A folder that grows ("follow"), each file scored before it is trained on.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "tests/end_to_end/daily_folder.h"
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A folder "stream" to follow, and files of whole batches to put there.
class Stream : public DailyFolder {
 public:
  explicit Stream(int files = 3) : files_(static_cast<size_t>(files)) {
    std::string text = daily_config_text("");
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

TEST_CASE("a folder is trained on as one file would be, each file scored before it",
          "[follow][slow]") {
  for (const std::string& topology : daily_topologies()) {
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
      REQUIRE(run_program(command).code == 0);
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
  for (const std::string& topology : {daily_topologies()[0], daily_topologies()[1]}) {
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
Changes resumed_from_newest(const DailyFolder& folder) {
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
          "[follow][slow]") {
  constexpr int kDays = 10;
  for (const std::string& topology : {daily_topologies()[0], daily_topologies()[1]}) {
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

TEST_CASE("a folder of Criteo's lines is trained on as one file would be", "[follow]") {
  const DailyFolder folder;
  Json config = Json::parse(read_text(std::string(HLITE_CONFIGS) + "/criteo_text.json"));
  for (const char* key : {"eval_interval", "eval_batches", "max_iter"}) config["solver"].erase(key);
  config["solver"]["batchsize"] = 64;
  config["layers"][0].erase("eval_source");
  config["layers"][1]["sparse_embedding_hparam"]["slot_size_array"] = std::vector<int>(26, 1000);
  fs::create_directory(folder / "stream");
  std::string all;
  for (int day = 0; day < 3; ++day) {  // whole batches
    const std::string lines = prep::awkward_rows(static_cast<uint64_t>(day), 64 * (3 + day));
    all += lines;
    write_text(folder / fmt::format("stream/day_{}.tsv", day), lines);
  }
  write_text(folder / "stream/day_0.txt", "another format's");
  write_text(folder / "stream/_END", "");
  write_text(folder / "train.tsv", all);
  config["layers"][0]["source"] = "train.tsv";
  config["solver"]["num_epochs"] = 1;
  write_text(folder / "config.json", config.dump());
  folder.train({}, {"--export", folder / "want.w"});
  config["layers"][0]["source"] = "stream";
  config["layers"][0]["follow"] = true;
  config["solver"].erase("num_epochs");  // a folder has no epochs
  write_text(folder / "config.json", config.dump());
  folder.train({}, {"--export", folder / "got.w", "--metrics", folder / "metrics.jsonl"});
  CHECK((read_text(folder / "got.w") == read_text(folder / "want.w")));
  const auto scored = folder.events("progressive");
  REQUIRE(scored.size() == 3);
  CHECK(scored[2]["file"] == "day_2.tsv");
  CHECK(scored[2]["iter"] == 7);
  // Ended within a file, and resumed there.
  folder.train({"solver.max_iter=5"}, {"--save", folder / "part"});
  CHECK(checkpoint::read_manifest(folder / "part").followed.file == "day_1.tsv");
  folder.train({}, {"--resume", folder / "part", "--export", folder / "resumed.w"});
  CHECK((read_text(folder / "resumed.w") == read_text(folder / "want.w")));
}

TEST_CASE("files without samples are passed over, with a record and no metrics", "[follow]") {
  for (const std::string& topology : {daily_topologies()[0], daily_topologies()[1]}) {
    INFO(topology);
    const Stream stream;
    for (int i = 0; i < 2; ++i) stream.put(i);
    stream.end();
    stream.train({topology}, {"--export", stream / "want.w"});
    for (const char* name : {"a.bin", "b.bin", "day_0b.bin", "day_1b.bin", "day_1c.bin"})
      write_text(stream / ("stream/" + std::string(name)), "");
    const Changes records = {"--metrics",       stream / "metrics.jsonl", "--report",
                             stream / "r.html", "--tensorboard",          stream / "tb"};
    stream.train({topology, R"(solver.eval_metrics=["AUPRC"])"},
                 Changes{"--save", stream / "saved", "--export", stream / "got.w"} + records);
    CHECK((read_text(stream / "got.w") == read_text(stream / "want.w")));
    std::vector<std::string> scored;
    for (const Json& event : stream.events("progressive")) {
      scored.push_back(event["file"]);
      const std::string& name = scored.back();
      const bool none = name != Stream::name(0) && name != Stream::name(1);
      CHECK((event["samples"] == 0) == none);
      CHECK(event["auc"].is_null() == none);
      CHECK(event["loss"].is_null() == none);
      CHECK(event["auprc"].is_null() == none);
    }
    CHECK(scored == std::vector<std::string>{"a.bin", "b.bin", "day_0.bin", "day_0b.bin",
                                             "day_1.bin", "day_1b.bin", "day_1c.bin"});
    // The next day comes after them.
    CHECK(checkpoint::read_manifest(stream / "saved").followed.file == "day_1c.bin");
    stream.put(2);
    stream.train({topology},
                 Changes{"--resume", stream / "saved", "--save", stream / "saved"} + records);
    CHECK(stream.events("progressive").size() == 8);
    CHECK(checkpoint::read_manifest(stream / "saved").iteration == 4 + 5 + 6);
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

}  // namespace hlite::test
