#include "hugectr_lite/checkpoint/checkpoint.h"

#include <unistd.h>

#include <filesystem>
#include <limits>

#include "hugectr_lite/core/error.h"
#include "tests/checkpoint/tensors.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::checkpoint;
using test::check_contains;
using test::message_of;
using test::model_states;
using test::model_weights;
using test::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {
CheckpointMeta example_meta(int64_t iteration) {
  CheckpointMeta meta;
  meta.iteration = iteration;
  meta.samples = iteration * 256;
  meta.data_position = iteration + 1;
  meta.seed = std::numeric_limits<uint64_t>::max() - 2;
  if (iteration % 2 == 1) {  // not all runs have one
    meta.loss_scale = 4096;
    meta.loss_scale_good = iteration + 3;
    meta.rate_scale = 0.1f * 0.1f;
    meta.plateau = {.any = true, .value = 0.1 + 0.2, .waited = 2, .of_loss = true};
    meta.trained_on = R"({"slots":[{"name":"user","vocabulary":"00ff"}],"rules":[]})";
  }
  meta.config = R"({"solver":{"lr":0.1,"batchsize":256},"layers":[{"name":"z"},{"name":"a"}]})";
  return meta;
}

// Saves with random contents drawn from `iteration`.
void save(const std::string& dir, int64_t iteration, const OpenSink& open = {}) {
  const auto weights = model_weights(), states = model_states();
  weights->fill(static_cast<uint64_t>(iteration));
  states->fill(static_cast<uint64_t>(iteration) + 100);
  save_checkpoint(dir, example_meta(iteration), weights->refs(), states->refs(), open);
}

// Loads, and checks that everything is what save(dir, iteration) wrote.
void check_loads(const std::string& dir, int64_t iteration) {
  const CheckpointMeta meta = read_manifest(dir);
  const CheckpointMeta want = example_meta(iteration);
  CHECK(meta.iteration == iteration);
  CHECK(meta.samples == want.samples);
  CHECK(meta.data_position == want.data_position);
  CHECK(meta.seed == want.seed);
  CHECK(meta.loss_scale == want.loss_scale);
  CHECK(meta.loss_scale_good == want.loss_scale_good);
  CHECK(meta.rate_scale == want.rate_scale);
  CHECK(meta.plateau.any == want.plateau.any);
  CHECK(meta.plateau.value == want.plateau.value);
  CHECK(meta.plateau.waited == want.plateau.waited);
  CHECK_FALSE(meta.early_stop.any);
  CHECK(meta.plateau.of_loss == want.plateau.of_loss);
  CHECK(open_best_weights(dir, meta) == nullptr);
  CHECK(meta.config == want.config);
  CHECK(meta.trained_on == want.trained_on);
  CHECK(trained_on(dir) == want.trained_on);
  CHECK_FALSE(meta.program.empty());
  const auto weights = model_weights(), states = model_states();
  load_checkpoint(dir, meta, weights->refs(), states->refs());
  const auto want_weights = model_weights(), want_states = model_states();
  want_weights->fill(static_cast<uint64_t>(iteration));
  want_states->fill(static_cast<uint64_t>(iteration) + 100);
  CHECK(weights->values() == want_weights->values());
  CHECK(states->values() == want_states->values());
}

std::string load_failure(const std::string& dir) {
  return message_of<DataError>([&] {
    const CheckpointMeta meta = read_manifest(dir);
    const auto weights = model_weights(), states = model_states();
    load_checkpoint(dir, meta, weights->refs(), states->refs());
  });
}

// A file that fails after a number of bytes that all files of a save share; or at close.
class FailingSink final : public ByteSink {
 public:
  FailingSink(const std::string& path, int64_t& budget) : file_(path), budget_(budget) {}
  [[nodiscard]] const std::string& name() const override { return file_.name(); }
  void write(std::span<const std::byte> bytes) override {
    const auto n = static_cast<int64_t>(bytes.size());
    if (n > budget_)
      raise<FileError>("{}: cannot write {} bytes at offset {}: No space left on device", name(), n,
                       at_);
    budget_ -= n;
    at_ += n;
    file_.write(bytes);
  }
  void close() override {
    if (budget_ == 0) raise<FileError>("{}: cannot make durable: I/O error", name());
    file_.close();
  }

 private:
  WriteFile file_;
  int64_t& budget_;
  int64_t at_ = 0;
};
}  // namespace

TEST_CASE("a checkpoint is read as it was written, and replaced by the next") {
  const TemporaryDirectory dir;
  for (const int64_t iteration : {0, 1, 300}) {
    save(dir / "c", iteration);
    check_loads(dir / "c", iteration);
    CHECK(dir.entries() == 1);
  }
}

TEST_CASE("a place may be given with a slash, through a link, in directories yet to be made") {
  const TemporaryDirectory dir;
  save(dir / "a/b/c/", 1);
  check_loads(dir / "a/b/c", 1);
  fs::create_directory_symlink(dir / "a/b/c", dir / "link");
  save(dir / "link", 2);
  CHECK(fs::is_symlink(dir / "link"));
  check_loads(dir / "a/b/c", 2);
  check_loads(dir / "link/", 2);
  fs::create_directory(dir / "empty");
  save(dir / "empty", 3);
  check_loads(dir / "empty", 3);
}

TEST_CASE("files of a preparation go with a checkpoint, and are replaced with it") {
  const TemporaryDirectory dir;
  test::write_text(dir / "words.txt", "red\nblue\n");
  test::write_text(dir / "data.json", "{}");
  CheckpointMeta meta = example_meta(1);
  meta.preparation = {{dir / "words.txt", "vocabulary/00_colour.txt"},
                      {dir / "data.json", "manifest.json"}};
  const auto weights = model_weights();
  save_checkpoint(dir / "c", meta, weights->refs(), {});
  const std::string folder = preparation_in(dir / "c");
  CHECK(folder == dir / "c/preparation");
  CHECK(test::read_text(folder + "/vocabulary/00_colour.txt") == "red\nblue\n");
  CHECK(test::read_text(folder + "/manifest.json") == "{}");
  CHECK(read_manifest(dir / "c").iteration == 1);
  meta.preparation = {{dir / "none.txt", "manifest.json"}};
  check_contains(
      message_of<FileError>([&] { save_checkpoint(dir / "c", meta, weights->refs(), {}); }),
      {"none.txt", "is untouched"});
  CHECK(preparation_in(dir / "c") == folder);
  meta.preparation.clear();
  save_checkpoint(dir / "c", meta, weights->refs(), {});
  CHECK(preparation_in(dir / "c").empty());
}

TEST_CASE("no optimizer states are a file without tensors") {
  const TemporaryDirectory dir;
  const auto weights = model_weights();
  save_checkpoint(dir / "c", example_meta(1), weights->refs(), {});
  CHECK(fs::exists(dir / "c/optimizer.safetensors"));
  load_checkpoint(dir / "c", read_manifest(dir / "c"), weights->refs(), {});
}

TEST_CASE("what is not a checkpoint of ours is not replaced") {
  const TemporaryDirectory dir;
  fs::create_directory(dir / "photos");
  test::write_text(dir / "photos/1.jpg", "x");
  for (const auto& attempt :
       {std::function<void()>([&] { save(dir / "photos", 1); }),
        std::function<void()>([&] { check_checkpoint_place(dir / "photos"); })})
    check_contains(message_of<DataError>(attempt), {"photos", "without manifest.json"});
  CHECK(test::read_text(dir / "photos/1.jpg") == "x");

  test::write_text(dir / "photos/manifest.json", R"({"name": "a web page"})");
  check_contains(message_of<DataError>([&] { save(dir / "photos", 1); }),
                 {"photos", "a manifest.json without \"hugectr_lite checkpoint\""});
  test::write_text(dir / "file", "x");
  check_contains(message_of<DataError>([&] { save(dir / "file", 1); }),
                 {"file", "something that is no directory"});
  CHECK(dir.entries() == 2);

  CHECK_NOTHROW(check_checkpoint_place(dir / "new/deep"));
  check_contains(message_of<DataError>([&] { check_checkpoint_place(dir / "file/c"); }),
                 {"file", "can be written"});
}

TEST_CASE("a write that fails at any byte leaves the older checkpoint and nothing else") {
  const TemporaryDirectory dir;
  const std::string c = dir / "c";
  const auto open_with = [](int64_t& budget) {
    return [&budget](const std::string& path) -> std::unique_ptr<ByteSink> {
      return std::make_unique<FailingSink>(path, budget);
    };
  };
  int64_t budget = 1 << 20;
  save(dir / "all", 8, open_with(budget));
  const int64_t total = (1 << 20) - budget;
  fs::remove_all(dir / "all");

  // Without an older one nothing is left at all.
  budget = total / 2;
  check_contains(message_of<DataError>([&] { save(c, 1, open_with(budget)); }),
                 {"No space left on device"});
  CHECK(dir.entries() == 0);

  save(c, 7);
  for (int64_t allowed = 0; allowed <= total; allowed += std::max<int64_t>(1, total / 60)) {
    budget = allowed;
    const std::string message = message_of<DataError>([&] { save(c, 8, open_with(budget)); });
    check_contains(message, {c + ".tmp.", "; the checkpoint " + c + " is untouched"});
    REQUIRE(dir.entries() == 1);
    check_loads(c, 7);
  }
  budget = total + 1;
  save(c, 8, open_with(budget));
  check_loads(c, 8);
}

TEST_CASE("an error of another kind while saving leaves the older checkpoint too") {
  const TemporaryDirectory dir;
  save(dir / "c", 7);
  TensorRef remote{"x", {3}};
  remote.get = [](int64_t, std::span<float>) { raise<DeviceError>("the device is gone"); };
  CHECK(message_of<DeviceError>([&] {
          save_checkpoint(dir / "c", example_meta(8), std::span(&remote, 1), {});
        }) == "the device is gone");
  CHECK(dir.entries() == 1);
  check_loads(dir / "c", 7);
}

TEST_CASE("what dead processes left is removed, what others write is not") {
  const TemporaryDirectory dir;
  const std::string c = dir / "c";
  const std::string dead = c + ".tmp.2147483646", ours = c + ".tmp." + std::to_string(getpid());
  const std::string living = c + ".tmp.1", other = c + ".tmp.notes",
                    next = dir / "cc.tmp.2147483646";
  for (const auto& d : {dead, ours, living, other, next}) {
    fs::create_directory(d);
    test::write_text(d + "/f", "x");
  }
  save(c, 1);
  check_loads(c, 1);
  CHECK_FALSE(fs::exists(dead));
  CHECK_FALSE(fs::exists(ours));
  CHECK(fs::exists(living));
  CHECK(fs::exists(other));
  CHECK(fs::exists(next));
}

TEST_CASE("a checkpoint between two renames is found, and replaced by the next save") {
  const TemporaryDirectory dir;
  save(dir / "c", 1);
  fs::rename(dir / "c", dir / "c.tmp.old");
  check_loads(dir / "c", 1);
  save(dir / "c", 2);
  check_loads(dir / "c", 2);
  CHECK(dir.entries() == 1);
}

TEST_CASE("a truncated or lengthened file is named") {
  const TemporaryDirectory dir;
  for (const char* name : {"manifest.json", "weights.safetensors", "optimizer.safetensors"}) {
    save(dir / "c", 1);
    const std::string path = dir / "c/" + name;
    const std::string text = test::read_text(path);
    const size_t step = std::max<size_t>(1, text.size() / 40);
    for (size_t n = 0; n + 1 < text.size(); n += step) {  // a manifest may lose its last newline
      fs::resize_file(path, n);
      check_contains(load_failure(dir / "c"), {name});
    }
    test::write_text(path, text + "x");
    check_contains(load_failure(dir / "c"), {name});
    fs::remove(path);
    const bool manifest = std::string_view(name) == "manifest.json";
    check_contains(
        load_failure(dir / "c"),
        {name, manifest ? "expected a checkpoint, found a directory without" : "No such file"});
    test::write_text(path, text);
    check_loads(dir / "c", 1);
    fs::remove_all(dir / "c");
  }
}

TEST_CASE("a flipped bit is found wherever it is") {
  const TemporaryDirectory dir;
  save(dir / "c", 1);
  for (const char* name : {"manifest.json", "weights.safetensors", "optimizer.safetensors"}) {
    const std::string path = dir / "c/" + name;
    const std::string text = test::read_text(path);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](size_t at, int value) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(value)).flush();
    };
    const size_t step = text.size() > 1000 ? 13 : 1;
    for (size_t at = 0; at < text.size(); at += step) {
      if (text[at] == '\n') continue;  // white space between JSON's words
      put(at, text[at] ^ (1 << (at % 7)));
      check_contains(load_failure(dir / "c"), {name});
      put(at, text[at]);
    }
  }
  check_loads(dir / "c", 1);
}

TEST_CASE("tensors of another model are listed") {
  const TemporaryDirectory dir;
  save(dir / "c", 1);
  test::Tensors other;
  other.add("top.weight", {7, 4});
  other.add("new", {2});
  const auto states = model_states();
  const CheckpointMeta meta = read_manifest(dir / "c");
  check_contains(message_of<DataError>(
                     [&] { load_checkpoint(dir / "c", meta, other.refs(), states->refs()); }),
                 {"weights.safetensors", "top.weight: expected [7,4], found [7,3]",
                  "top.bias: expected no such tensor, found [3]", "new: expected [2], found none"});
}

TEST_CASE("files of another save do not pass under this manifest") {
  const TemporaryDirectory dir;
  save(dir / "c", 1);
  save(dir / "d", 2);
  fs::copy_file(dir / "d/weights.safetensors", dir / "c/weights.safetensors",
                fs::copy_options::overwrite_existing);
  check_contains(load_failure(dir / "c"), {"weights.safetensors", "checksum"});
}

TEST_CASE("a manifest that says something else is an error that says what") {
  const TemporaryDirectory dir;
  save(dir / "c", 1);
  const std::string text = test::read_text(dir / "c/manifest.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    REQUIRE(changed.find(from) != std::string::npos);
    changed.replace(changed.find(from), from.size(), to);
    return message_of<DataError>([&] { parse_manifest(changed, "manifest.json"); });
  };
  check_contains(with("\"version\": 1", "\"version\": 2"),
                 {"manifest.json: version: expected 1, found 2"});
  check_contains(with("hugectr_lite checkpoint", "other"), {"format", "found \"other\""});
  check_contains(with("\"iteration\": 1", "\"iteration\": 2"), {"damaged", "checksum"});
  check_contains(with("\"format\"", "\"formal\""), {"formal", "did you mean \"format\"?"});
  check_contains(with("\"version\": 1", "\"version\": -1"), {"version", "-1"});
  check_contains(with("\"seed\": \"", "\"seed\": \"9"), {"seed", "unsigned 64-bit"});
  check_contains(with("\"seed\": \"", "\"seed\": \"-"), {"seed", "unsigned 64-bit"});
  check_contains(with("\"config\": {", "\"config\": 7, \"x\": {"), {"config", "object"});
  check_contains(with("\"weights.safetensors", "\"../x"),
                 {"files[0].name: expected \"weights.safetensors\", found \"../x\""});
  check_contains(with("\"bytes\"", "\"byte\""), {"files[0]", "did you mean \"bytes\"?"});
  check_contains(with("\"samples\"", "\"iteration\""), {"iteration: expected each key once"});
  for (const char* bad : {"", "null", "[]", "{}", "{", "7"})
    check_contains(message_of<DataError>([&] { parse_manifest(bad, "manifest.json"); }),
                   {"manifest.json"});
  CHECK(parse_manifest(text, "manifest.json").iteration == 1);
  check_contains(message_of<DataError>([&] { read_manifest(dir / "none"); }),
                 {"none: expected a checkpoint, found nothing"});
}

TEST_CASE("the best weights of a checkpoint count, where its manifest has some") {
  const TemporaryDirectory dir;
  const auto weights = model_weights(), states = model_states(), back = model_weights();
  weights->fill(5);
  save_weights(dir / "best", weights->refs(), R"({"rules":[]})");
  const auto best_values = weights->values();
  CheckpointMeta meta = example_meta(1);
  weights->fill(6);
  save_checkpoint(dir / "last only", meta, weights->refs(), states->refs());
  const ReadFile best(dir / "best");
  meta.best_weights = &best;
  save_checkpoint(dir / "both", meta, weights->refs(), states->refs());

  load_weights(weights_in(dir / "both"), back->refs());
  CHECK(back->values() == best_values);
  load_weights(weights_in(dir / "both", Which::kLast), back->refs());
  CHECK(back->values() == weights->values());
  // Its metadata are in the manifest, so that a delta can lead to the same bytes.
  CHECK(SafetensorsReader(ReadFile(weights_in(dir / "both").path)).metadata().empty());
  CHECK(weights_in(dir / "best").path == dir / "best");
  CHECK_FALSE(weights_in(dir / "best").sum);

  const auto verify = [](const WeightsFile& file) {
    verify_weights(ReadFile(file.path), *file.sum);
  };
  // A file that the manifest does not name is nothing to it.
  fs::copy_file(dir / "best", dir / "last only/best.safetensors");
  for (const Which which : {Which::kBest, Which::kLast}) {
    const WeightsFile file = weights_in(dir / "last only", which);
    CHECK(file.path == dir / "last only/weights.safetensors");
    REQUIRE(file.sum);
    CHECK(file.sum->digits() == read_manifest(dir / "last only").files[0].sum.digits());
    verify(file);
  }
  fs::copy_file(dir / "best", dir / "both/weights.safetensors",
                fs::copy_options::overwrite_existing);
  verify(weights_in(dir / "both"));
  check_contains(message_of<DataError>([&] { verify(weights_in(dir / "both", Which::kLast)); }),
                 {"weights.safetensors: it is damaged"});
}

TEST_CASE("weights are exported to one file and read from it") {
  const TemporaryDirectory dir;
  for (const uint64_t seed : {1, 2}) {
    const auto weights = model_weights(), back = model_weights();
    weights->fill(seed);
    save_weights(dir / "w.safetensors", weights->refs());
    CHECK(dir.entries() == 1);
    load_weights({dir / "w.safetensors"}, back->refs());
    CHECK(back->values() == weights->values());
    CHECK(trained_on(dir / "w.safetensors").empty());
  }
  const auto weights = model_weights(), back = model_weights();
  weights->fill(3);
  save_weights(dir / "known.safetensors", weights->refs(), R"({"rules":[]})");
  load_weights({dir / "known.safetensors"}, back->refs());
  CHECK(back->values() == weights->values());
  CHECK(trained_on(dir / "known.safetensors") == R"({"rules":[]})");
  const auto states = model_states();
  check_contains(
      message_of<DataError>([&] { load_weights({dir / "w.safetensors"}, states->refs()); }),
      {"w.safetensors", "step: expected [], found none"});
  check_contains(message_of<DataError>([&] { load_weights({dir / "none"}, states->refs()); }),
                 {"none: cannot open"});
  check_contains(message_of<DataError>([&] { save_weights("/dev/null", states->refs()); }),
                 {"/dev/null", "something else"});
  check_contains(message_of<DataError>([&] { save_weights(dir.path(), states->refs()); }),
                 {dir.path()});
}
