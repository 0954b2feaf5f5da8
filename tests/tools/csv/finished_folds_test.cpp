#include "tools/csv/finished_folds.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::tools {
namespace {

using FoldsRun = nlohmann::ordered_json;

int64_t folds_of(const test::TemporaryDirectory& folder, const FoldsRun& run) {
  const FinishedFolds folds(folder.path(), run);
  int64_t finished = 0;
  while (folds.has(finished)) ++finished;
  CHECK_FALSE(folds.has(finished + 1));
  return finished;
}

const FoldsRun kFoldsOfA = {{"folds", 5}, {"train", {"a.csv", "ä\"b\".csv"}}};

}  // namespace

TEST_CASE("a run that was killed finds the folds that it has finished, whenever that was") {
  const test::TemporaryDirectory folder;
  CHECK(folds_of(folder, kFoldsOfA) == 0);
  CHECK(folder.entries() == 0);  // looking leaves no file
  for (int64_t fold = 0; fold < 5; ++fold) {
    FinishedFolds folds(folder.path(), kFoldsOfA);
    CHECK_FALSE(folds.has(fold));
    folds.add(fold);
    CHECK(folds.has(fold));
    CHECK_FALSE(folds.has(fold + 1));
    CHECK(folds_of(folder, kFoldsOfA) == fold + 1);
    CHECK(folder.entries() == 1);  // no temporary file stays
  }
  FinishedFolds folds(folder.path(), kFoldsOfA);
  folds.remove();
  CHECK(folder.entries() == 0);
  CHECK(folds_of(folder, kFoldsOfA) == 0);
  folds.remove();  // there is none: as after a run without folds
}

TEST_CASE("folds of another run do not count, and are replaced by the next that is finished") {
  const test::TemporaryDirectory folder;
  FinishedFolds(folder.path(), kFoldsOfA).add(3);
  for (const FoldsRun& other :
       {FoldsRun{{"folds", 5}, {"train", {"a.csv"}}},
        FoldsRun{{"train", {"a.csv", "ä\"b\".csv"}}, {"folds", 5}},
        FoldsRun{{"folds", 5.0}, {"train", {"a.csv", "ä\"b\".csv"}}}, FoldsRun()}) {
    INFO(other.dump());
    CHECK(folds_of(folder, other) == 0);
    CHECK(folds_of(folder, kFoldsOfA) == 4);
  }
  FinishedFolds(folder.path(), FoldsRun()).add(0);
  CHECK(folds_of(folder, kFoldsOfA) == 0);
  CHECK(folds_of(folder, FoldsRun()) == 1);
}

TEST_CASE("a file of folds that is none begins again") {
  const test::TemporaryDirectory folder;
  FinishedFolds(folder.path(), kFoldsOfA).add(1);
  const std::string good = test::read_text(folder / ".folds");
  const std::string run = nlohmann::json(kFoldsOfA.dump()).dump();
  for (const std::string& text :
       {std::string(), std::string("{"), good.substr(0, good.size() - 1), std::string("[1]"),
        std::string("7"), std::string("{}"), "{\"run\": " + run + "}",
        "{\"run\": " + run + ", \"finished\": \"2\"}", "{\"run\": " + run + ", \"finished\": null}",
        "{\"run\": " + run + ", \"finished\": 1.5}", "{\"run\": " + run + ", \"finished\": -1}",
        std::string("{\"run\": 3, \"finished\": 2}"), std::string("\xff\xfe")}) {
    INFO(text);
    test::write_text(folder / ".folds", text);
    CHECK(folds_of(folder, kFoldsOfA) == 0);
  }
  test::write_text(folder / ".folds", good);
  CHECK(folds_of(folder, kFoldsOfA) == 2);
}

TEST_CASE("folds that cannot be noted or read are an error that names the file") {
  const test::TemporaryDirectory folder;
  FinishedFolds nowhere(folder / "none", kFoldsOfA);
  CHECK_FALSE(nowhere.has(0));
  test::check_contains(test::message_of<FileError>([&] { nowhere.add(0); }),
                       {folder / "none/.folds", "No such file or directory"});
  std::filesystem::create_directory(folder / ".folds");
  test::check_contains(
      test::message_of<FileError>([&] { FinishedFolds(folder.path(), kFoldsOfA); }),
      {folder / ".folds", "directory"});
}

}  // namespace hlite::tools
