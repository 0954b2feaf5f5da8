#include "hugectr_lite/preparation/engine/output_folder.h"

#include <filesystem>
#include <map>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/preparation/apply/preparation.h"
#include "hugectr_lite/preparation/criteo/criteo_prep.h"
#include "tests/preparation/criteo/criteo_oracle.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::prep {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::message_of;
using test::TemporaryDirectory;
using test::write_text;

struct Folder : TemporaryDirectory {
  Folder() {
    write_text(*this / "a.tsv", awkward_rows(31, 60));
    write_text(*this / "b.tsv", awkward_rows(32, 50));
  }
  // The first preparation: with validation and a vocabulary.
  [[nodiscard]] CriteoPrepOptions first() const {
    CriteoPrepOptions options;
    options.train = {*this / "a.tsv"};
    options.val = {*this / "b.tsv"};
    options.save_vocabulary = true;
    options.output.folder = *this / "out";
    options.run.quiet = true;
    options.run.threads = 2;
    return options;
  }
  // Another one into the same folder: other rows, neither of these.
  [[nodiscard]] CriteoPrepOptions second(bool force) const {
    CriteoPrepOptions options = first();
    options.train = {*this / "b.tsv"};
    options.val.clear();
    options.save_vocabulary = false;
    options.run.force = force;
    return options;
  }
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(*this / "out"))
      files[fs::relative(entry.path(), *this / "out")] =
          entry.is_regular_file() ? test::read_text(entry.path()) : "";
    return files;
  }
};

TEST_CASE("a folder that holds another preparation is refused, and stays as it is", "[threads]") {
  const Folder folder;
  criteo_prep(folder.first());
  const auto before = folder.files();
  CHECK(message_of<ConfigError>([&] { criteo_prep(folder.second(false)); }) ==
        folder /
            "out: expected no files of an earlier run, found key_counts.bin, manifest.json, "
            "train.bin, val.bin, vocabulary/; choose another --out, or replace all of them "
            "with --force");
  CHECK((folder.files() == before));
  // The command that wrote it finds it complete.
  criteo_prep(folder.first());
  CHECK((folder.files() == before));
  // Also where only a file of it is left.
  for (const char* name : {"test.bin", "val_list.txt", "train_norm/00000.norm"}) {
    const Folder stale;
    fs::create_directories((stale / "out") / fs::path(name).parent_path());
    write_text(stale / (std::string("out/") + name), "x");
    check_contains(message_of<ConfigError>([&] { criteo_prep(stale.first()); }),
                   {"found " + std::string(name).substr(0, std::string(name).find('/'))});
    CHECK_FALSE(fs::exists(stale / "out/.prep"));
  }
}

TEST_CASE("with --force all of it is replaced, once the new preparation is complete", "[threads]") {
  const Folder folder;
  criteo_prep(folder.first());
  write_text(folder / "out/notes.txt", "not of a preparation");
  const auto before = folder.files();
  CriteoPrepOptions failing = folder.second(true);
  failing.run.at_point = [](std::string_view name) {
    if (name == "write") throw Error("stopped");
  };
  CHECK_THROWS_WITH(criteo_prep(failing), "stopped");
  auto after = folder.files();
  std::erase_if(after, [](const auto& file) { return file.first.starts_with(".prep"); });
  CHECK((after == before));

  criteo_prep(folder.second(true));
  after = folder.files();
  CHECK(after.erase("notes.txt") == 1);
  CriteoPrepOptions alone = folder.second(false);
  alone.output.folder = folder / "alone";
  criteo_prep(alone);
  CHECK(after.size() == 4);  // with .complete
  for (const auto& [name, text] : after) CHECK(text == test::read_text(folder / "alone/" + name));
}

TEST_CASE("with --force an unfinished preparation of other options is replaced, too", "[threads]") {
  const Folder folder;
  CriteoPrepOptions stopped = folder.first();
  stopped.run.checkpoint_seconds = 0;
  stopped.run.at_point = [](std::string_view name) {
    if (name == "write") throw Error("stopped");
  };
  CHECK_THROWS_WITH(criteo_prep(stopped), "stopped");
  check_contains(message_of<ConfigError>([&] { criteo_prep(folder.second(false)); }),
                 {"unfinished run of other options"});
  criteo_prep(folder.second(true));
  CHECK(folder.files().size() == 4);
}

TEST_CASE("a run that was stopped while files got their names goes on, and no other does",
          "[threads]") {
  const Folder folder;
  CriteoPrepOptions options = folder.first();
  options.run.at_point = [](std::string_view name) {
    if (name == "published") throw Error("stopped");
  };
  CHECK_THROWS_WITH(criteo_prep(options), "stopped");
  fs::remove(folder / "out/manifest.json");
  CHECK_THROWS_AS(criteo_prep(folder.second(false)), ConfigError);
  CriteoPrepOptions restarted = folder.first();
  restarted.run.restart = true;
  CHECK(criteo_prep(folder.first()).files.size() == 2);
  CHECK_FALSE(fs::exists(folder / "out/.prep"));
  check_contains(message_of<ConfigError>([&] { criteo_prep(restarted); }), {"--force"});
}

TEST_CASE("inputs are no outputs, and no file is both for training and for validation",
          "[threads]") {
  const Folder folder;
  fs::create_directories(folder / "out");
  fs::rename(folder / "a.tsv", folder / "out/train.bin");
  fs::create_symlink(folder / "out/train.bin", folder / "a.tsv");
  CriteoPrepOptions options = folder.first();
  options.run.force = true;
  check_contains(message_of<ConfigError>([&] { criteo_prep(options); }),
                 {"expected inputs other than the files to be written, found " + folder / "a.tsv"});
  CHECK_FALSE(test::read_text(folder / "out/train.bin").empty());
  options.val = {folder / "out/train.bin"};
  check_contains(message_of<ConfigError>([&] { criteo_prep(options); }),
                 {"train.bin: expected", "for training or for validation"});
}

}  // namespace
}  // namespace hlite::prep
