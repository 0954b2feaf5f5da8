// The arrows between folders, checked on every #include line of the sources, and on every namespace
// that they open: a declaration of what lies above is an arrow, too.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "tests/support/catch.h"

namespace hlite::test {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string, std::less<>>;

// Folder -> folders that it may include besides itself.
const std::map<std::string, Names, std::less<>> kArrows = {
    {"core", {}},
    {"metrics", {"core"}},
    {"config", {"core", "metrics"}},
    {"plan", {"core"}},
    {"ops", {"core"}},
    {"comm", {"core"}},
    {"checkpoint", {"core", "config"}},
    {"cuda", {"core"}},
    {"optimizer", {"core", "config"}},
    {"network", {"core", "config", "plan", "ops"}},
    {"embedding", {"core", "config", "plan", "optimizer", "comm"}},
    {"data_reader", {"core", "config"}},
    {"trainer",
     {"core", "metrics", "config", "plan", "ops", "comm", "checkpoint", "optimizer", "network",
      "embedding", "data_reader", "preparation"}},
    {"preparation", {"core", "config", "data_reader"}},
    {"tools", {"core", "config", "checkpoint", "data_reader", "preparation"}},
    {"python",
     {"core", "config", "ops", "optimizer", "checkpoint", "data_reader", "trainer", "preparation",
      "predict"}},
    {"predict",
     {"core", "config", "plan", "ops", "checkpoint", "embedding", "data_reader", "trainer",
      "preparation"}},
    {"serve", {"core", "config", "checkpoint", "data_reader", "trainer", "preparation", "predict"}},
};

// The same inside folders that have folders. Files next to these, the programs' main(), may include
// all of them, and nothing includes those.
using Arrows = std::map<std::string, Names, std::less<>>;
const std::map<std::string, Arrows, std::less<>> kInnerArrows = {
    {"preparation",
     {{"io", {}},
      {"models", {}},
      {"engine", {"io", "models"}},
      {"criteo", {"io", "engine"}},
      {"csv", {"io", "engine"}},
      {"inspect", {"io", "criteo", "csv"}},
      {"synth", {"io", "engine", "criteo"}},
      {"apply", {"io", "engine", "criteo", "csv"}}}},
    {"tools", {}},  // programs' main() alone
    {"trainer",
     {{"keys", {}},
      {"model", {}},
      {"evaluation", {"model"}},
      {"report", {"model", "evaluation"}},
      {"run", {"keys", "model", "evaluation", "report"}},
      {"tune", {"model", "run"}},
      {"estimate", {"model", "run"}}}},
};

// Namespaces below hlite that are a folder's under another name. hlite::cuda is what core has of
// the plug-in.
const std::map<std::string, std::string, std::less<>> kFolderOfNamespace = {
    {"cuda", "core"}, {"data", "data_reader"}, {"prep", "preparation"}};

// Other people's headers, by the start of their name -> folders that may include them. Everything
// not named here counts as the standard's or the system's.
const std::map<std::string, Names, std::less<>> kBorrowed = {
    {"spdlog/", {"core"}},
    {"nlohmann/",
     {"config", "checkpoint", "data_reader", "preparation", "tools", "trainer", "serve"}},
    {"boost/", {"serve"}},
    {"simdjson", {"serve"}},
    {"prometheus/", {"serve"}},
    {"grpcpp/", {"serve"}},
    {"inference.pb", {"serve"}},
    {"CLI/", {"core", "trainer", "preparation", "tools"}},
    {"oneapi/", {"ops"}},
    {"cblas", {"ops"}},
    {"mpi", {"comm"}},
    {"libaio", {"core"}},
    {"arrow/", {"data_reader"}},
    {"parquet/", {"data_reader"}},
    {"catch2/", {}},
    {"gtest/", {}},
    {"benchmark/", {}},
};

constexpr std::string_view kCudaHeaders[] = {
    "cuda",         "cub/", "thrust/", "cublas", "curand", "nccl", "nvtx3/", "cooperative_groups",
    "device_launch"};
const Names kVagueStems = {"util", "utils", "common", "helper", "helpers", "misc"};

bool starts_with_any(std::string_view name, auto&& prefixes) {
  return std::any_of(std::begin(prefixes), std::end(prefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// "ops" for hugectr_lite/ops/x.h, "tools" for tools/x.cpp; empty for a path with no folder.
std::string folder_of(const std::string& path) {
  std::string_view rest = path;
  if (rest.starts_with("hugectr_lite/"))
    rest.remove_prefix(std::string_view("hugectr_lite/").size());
  const size_t end = rest.find('/');
  return end == std::string_view::npos ? std::string() : std::string(rest.substr(0, end));
}

// "csv" for hugectr_lite/preparation/csv/x.cpp; empty for a file next to the folders, and where there are none.
std::string inner_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  if (!kInnerArrows.contains(folder)) return {};
  return folder_of(path.substr(path.find(folder + "/") + folder.size() + 1));
}

std::string without_comment(const std::string& line) { return line.substr(0, line.find("//")); }

// Everything that is wrong with the includes and launches of one file, as "file:line: what".
class FileCheck {
 public:
  FileCheck(const std::string& path, const std::string& text)
      : path_(path), folder_(folder_of(path)), extension_(fs::path(path).extension().string()) {
    if (!kArrows.contains(folder_)) report("its folder is not in the table of arrows");
    if (const auto inner = kInnerArrows.find(folder_); inner != kInnerArrows.end()) {
      const std::string within = inner_folder_of(path);
      if (!within.empty() && !inner->second.contains(within))
        report("its folder is not in the table of arrows");
      if (within.empty() && !path.ends_with("main.cpp"))
        report("only programs lie next to the folders of " + folder_);
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      check_launch(without_comment(line));
      check_namespace(without_comment(line));
      check_include(line);
    }
  }
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }

 private:
  void report(const std::string& what) {
    violations_.push_back(fmt::format("{}:{}: {}", path_, line_, what));
  }

  // Kernels start through one function, which checks and which the emulation can run.
  void check_launch(const std::string& code) {
    if (path_ == "hugectr_lite/core/launch.cuh") return;
    if (code.find("<<<") != std::string::npos || code.find("cudaLaunch") != std::string::npos)
      report("starts a kernel itself instead of calling launch()");
  }

  // Whose names the file declares. Namespaces that are no folder's are anybody's.
  void check_namespace(const std::string& code) {
    static const std::regex opened(R"(\bnamespace\s+((?:\w+::)*\w+)\s*\{)");
    for (std::sregex_iterator it(code.begin(), code.end(), opened), end; it != end; ++it) {
      std::istringstream parts((*it)[1].str());
      for (std::string part; std::getline(parts, part, ':');) {
        const auto alias = kFolderOfNamespace.find(part);
        const std::string target = alias == kFolderOfNamespace.end() ? part : alias->second;
        if (kArrows.contains(target) && !may_use(target))
          report(fmt::format("opens namespace {}: {} may not declare what is in {}", (*it)[1].str(),
                             folder_, target));
      }
    }
  }

  [[nodiscard]] bool may_use(const std::string& target) const {
    const auto arrows = kArrows.find(folder_);
    return target == folder_ || (arrows != kArrows.end() && arrows->second.contains(target));
  }

  void check_include(const std::string& line) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') return;
    const size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || line.compare(word, 7, "include") != 0) return;
    const size_t open = line.find_first_of("\"<", word);
    if (open == std::string::npos) return report("includes no literal name");
    const size_t close = line.find_first_of("\">", open + 1);
    const std::string name = line.substr(open + 1, close - open - 1);
    if (line[open] == '"')
      check_own(name);
    else
      check_foreign(name);
  }

  void check_own(const std::string& name) {
    const std::string target = folder_of(name);
    if (name.starts_with("tests/")) return report("includes " + name + ": nothing includes tests");
    if (!kArrows.contains(target))
      return report("includes " + name + ", which is no path from the root of the repository");
    if (!may_use(target))
      report(fmt::format("includes {}: {} may not include {}", name, folder_, target));
    check_inner(name);
    if (name.ends_with(".cuh") && !is_cuda_source())
      report("includes " + name + ": only .cu and .cuh files include .cuh");
    if (name.ends_with(".cpp") || name.ends_with(".cu")) report("includes " + name);
  }

  void check_inner(const std::string& name) {
    const std::string from = inner_folder_of(path_), to = inner_folder_of(name);
    if (from.empty() || to.empty() || from == to || folder_of(name) != folder_) return;
    const Arrows& inner = kInnerArrows.find(folder_)->second;
    const auto arrows = inner.find(from);
    if (arrows == inner.end() || !arrows->second.contains(to))
      report(fmt::format("includes {0}: {1}/{2} may not include {1}/{3}", name, folder_, from, to));
  }

  void check_foreign(const std::string& name) {
    if (starts_with_any(name, kCudaHeaders) && !is_cuda_source())
      report("includes <" + name + ">: only .cu and .cuh files include CUDA's headers");
    for (const auto& [prefix, folders] : kBorrowed)
      if (name.starts_with(prefix) && !folders.contains(folder_))
        report(fmt::format("includes <{}>, which is not for {}", name, folder_));
  }

  [[nodiscard]] bool is_cuda_source() const { return extension_ == ".cu" || extension_ == ".cuh"; }

  std::string path_, folder_, extension_;
  int line_ = 0;
  std::vector<std::string> violations_;
};

std::vector<std::string> violations_of(const std::string& path, const std::string& text) {
  return FileCheck(path, text).violations();
}

// Paths, from the repository's root, of all sources below `folders`, sorted.
std::vector<std::string> sources(std::initializer_list<const char*> folders) {
  const fs::path root = HLITE_SOURCE_DIR;
  std::vector<std::string> paths;
  for (const char* folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file() &&
          Names{".h", ".cuh", ".cpp", ".cu"}.contains(entry.path().extension().string()))
        paths.push_back(entry.path().lexically_relative(root).generic_string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string content(const std::string& path) {
  std::ifstream file(fs::path(HLITE_SOURCE_DIR) / path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string list(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

// Headers that share a stem, and files with a name that says nothing.
std::vector<std::string> bad_names(const std::vector<std::string>& paths) {
  std::vector<std::string> bad;
  std::map<std::string, std::string> headers;
  for (const std::string& path : paths) {
    const fs::path file(path);
    const std::string stem = file.stem().string();
    if (kVagueStems.contains(stem)) bad.push_back(path + ":1: a name that says nothing");
    if (file.extension() != ".h" && file.extension() != ".cuh") continue;
    const auto [first, added] = headers.emplace(stem, path);
    if (!added) bad.push_back(fmt::format("{}:1: shares its stem with {}", path, first->second));
  }
  return bad;
}

TEST_CASE("every include follows the arrows between folders") {
  const auto paths = sources({"hugectr_lite", "embedding", "data_reader", "tools"});
  REQUIRE(paths.size() > 20);
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    const auto found = violations_of(path, content(path));
    all.insert(all.end(), found.begin(), found.end());
  }
  INFO("violations:" << list(all));
  CHECK(all.empty());
}

// Own and fmt's headers that `paths` include, and what these include.
Names included_by(const std::vector<std::string>& paths) {
  static const std::regex include(
      R"re(^\s*#\s*include ["<]((hugectr_lite|embedding|fmt)/[^">]*)[">])re");
  Names seen;
  std::vector<std::string> open = paths;
  while (!open.empty()) {
    std::istringstream lines(content(open.back()));
    open.pop_back();
    std::smatch found;
    for (std::string line; std::getline(lines, line);)
      if (std::regex_search(line, found, include) && seen.insert(found[1].str()).second &&
          !found[1].str().starts_with("fmt/"))
        open.push_back(found[1].str());
  }
  return seen;
}

// nvcc does not compile fmt 9, and the emulated build, which is g++'s, would not notice.
TEST_CASE("what nvcc compiles includes nothing of fmt") {
  std::vector<std::string> cuda;
  for (const std::string& path : sources({"hugectr_lite", "embedding"}))
    if (path.ends_with(".cu")) cuda.push_back(path);
  REQUIRE(cuda.size() > 40);
  std::vector<std::string> found;
  for (const std::string& path : cuda)
    for (const std::string& name : included_by({path}))
      if (name.starts_with("fmt/") || name == "hugectr_lite/core/error.h")
        found.push_back(path + " includes " + name);
  INFO("violations:" << list(found));
  CHECK(found.empty());
  CHECK(included_by({"hugectr_lite/core/in_quotes.h"}).contains("fmt/core.h"));
}

// ARCHITECTURE.md's table of folders: which, and the last cell of its line.
std::vector<std::pair<std::string, std::string>> documented_arrows() {
  std::vector<std::pair<std::string, std::string>> table;
  std::istringstream lines(content("ARCHITECTURE.md"));
  static const std::regex row(R"(\| `([a-z_/]+)` \|.*\| ([a-z_, ]*?) ?\|)");
  std::smatch found;
  for (std::string line; std::getline(lines, line);)
    if (std::regex_match(line, found, row))
      table.emplace_back(folder_of(found[1].str() + "/x"), found[2]);
  return table;
}

TEST_CASE("the table of folders in ARCHITECTURE.md is the one that is checked") {
  Names above;
  for (const auto& [folder, cell] : documented_arrows()) {
    const auto arrows = kArrows.find(folder);
    if (arrows != kArrows.end()) {
      INFO(folder << ": " << cell);
      const Names& targets = arrows->second;
      Names words;
      std::istringstream text(cell);
      for (std::string word; std::getline(text >> std::ws, word, ',');) words.insert(word);
      if (cell == "all above")
        CHECK(std::includes(above.begin(), above.end(), targets.begin(), targets.end()));
      else
        CHECK(words == targets);
    }
    above.insert(folder);
  }
  for (const auto& [folder, targets] : kArrows) {
    INFO(folder);
    CHECK(above.contains(folder));
  }
}

TEST_CASE("headers have stems of their own, and names say what is inside") {
  const auto bad =
      bad_names(sources({"hugectr_lite", "embedding", "data_reader", "tools", "tests"}));
  INFO("violations:" << list(bad));
  CHECK(bad.empty());
}

// Of the folders that are built for ThreadSanitizer (tests/CMakeLists.txt).
TEST_CASE("tests that start threads are seen by ThreadSanitizer") {
  const std::regex starts(R"(\brun_ranks\(|\bstd::j?thread\b)");
  const std::regex emulated("(cuda_backends|gpu_runs)[.]h|cuda_emulation/");  // not built there
  std::vector<std::string> untagged;
  size_t tagged = 0;
  for (const std::string& path :
       sources({"tests/core", "tests/comm", "tests/plan", "tests/embedding", "tests/data_reader",
                "tests/trainer", "tests/preparation"})) {
    const std::string text = content(path);
    if (!path.ends_with("_test.cpp") || !std::regex_search(text, starts) ||
        std::regex_search(text, emulated))
      continue;
    if (text.find("[threads]") == std::string::npos)
      untagged.push_back(path);
    else
      ++tagged;
  }
  INFO("without a case of [threads]:" << list(untagged));
  CHECK(untagged.empty());
  CHECK(tagged > 15);
}

TEST_CASE("the tables of arrows have no cycle") {
  std::vector<Arrows> tables = {kArrows};
  for (const auto& [folder, inner] : kInnerArrows) tables.push_back(inner);
  for (const Arrows& arrows : tables) {
    // Takes away folders that include nothing that is left, until nothing is left.
    Names done;
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& [folder, targets] : arrows)
        if (std::includes(done.begin(), done.end(), targets.begin(), targets.end()))
          grew |= done.insert(folder).second;
    }
    CHECK(done.size() == arrows.size());
  }
}

TEST_CASE("the check sees each kind of violation, with file and line") {
  const auto only = [](const std::string& path, const std::string& text) {
    const auto found = violations_of(path, text);
    INFO(list(found));
    REQUIRE(found.size() == 1);
    return found[0];
  };
  CHECK(only("hugectr_lite/ops/x.cpp", "\n#include \"hugectr_lite/config/y.h\"\n") ==
        "hugectr_lite/ops/x.cpp:2: includes hugectr_lite/config/y.h: ops may not include config");
  CHECK(only("hugectr_lite/preparation/io/x.cpp", "#include \"tests/support/compare.h\"")
            .find("hugectr_lite/preparation/io/x.cpp:1: ") == 0);
  CHECK(
      only("hugectr_lite/preparation/inspect/x.cpp",
           "#include \"hugectr_lite/preparation/engine/y.h\"") ==
      "hugectr_lite/preparation/inspect/x.cpp:1: includes hugectr_lite/preparation/engine/y.h: preparation/inspect may not include preparation/engine");
  CHECK(only("hugectr_lite/trainer/model/x.cpp", "#include \"hugectr_lite/trainer/run/y.h\"") ==
        "hugectr_lite/trainer/model/x.cpp:1: includes hugectr_lite/trainer/run/y.h: "
        "trainer/model may not include trainer/run");
  CHECK(only("hugectr_lite/trainer/x.cpp", "").find("next to the folders of trainer") !=
        std::string::npos);
  CHECK(only("tools/novel/x.cpp", "").find("not in the table") != std::string::npos);
  CHECK(only("tools/x.cpp", "").find("next to the folders") != std::string::npos);
  CHECK(only("embedding/x.cpp", "  # include \"x.h\"").find("no path from the root") !=
        std::string::npos);
  CHECK(only("hugectr_lite/core/x.h", "#include <cuda_runtime.h>").find(":1: ") !=
        std::string::npos);
  CHECK(only("hugectr_lite/core/x.cpp", "#include \"hugectr_lite/core/launch.cuh\"")
            .find("only .cu and .cuh") != std::string::npos);
  CHECK(only("hugectr_lite/ops/x.cu", "kernel<<<1, 2>>>();").find("launch()") != std::string::npos);
  CHECK(only("hugectr_lite/ops/x.cu", "cudaLaunchKernel(f, 1, 2, args, 0, s);").find("launch()") !=
        std::string::npos);
  CHECK(only("hugectr_lite/plan/x.cpp", "#include <nlohmann/json.hpp>").find("not for plan") !=
        std::string::npos);
  CHECK(only("hugectr_lite/novel/x.h", "").find("not in the table") != std::string::npos);
  CHECK(only("hugectr_lite/ops/x.cpp", "#include \"hugectr_lite/ops/y.cpp\"").find("y.cpp") !=
        std::string::npos);
  CHECK(only("hugectr_lite/core/x.h",
             "\nnamespace hlite::ops {\nstruct X;\n}  // namespace hlite::ops\n") ==
        "hugectr_lite/core/x.h:2: opens namespace hlite::ops: core may not declare what is in ops");
  CHECK(only("hugectr_lite/core/x.h", "namespace hlite {\nnamespace trainer { struct X; }\n}\n")
            .find("x.h:2: opens namespace trainer") != std::string::npos);
  CHECK(only("embedding/x.h", "namespace hlite::ops::gpu {").find("in ops") != std::string::npos);
  CHECK(only("hugectr_lite/config/x.h", "namespace hlite::data { struct Batch; }")
            .find("in data_reader") != std::string::npos);
  CHECK(violations_of("hugectr_lite/trainer/run/x.h",
                      "namespace hlite::ops {\nstruct X;\n}\nnamespace hlite::trainer {\n"
                      "namespace fs = std::filesystem;\n}  // namespace hlite::trainer\n")
            .empty());
  CHECK(
      violations_of("hugectr_lite/core/x.h",
                    "namespace hlite {\nnamespace cuda {\nstruct Y;  // namespace hlite::ops {\n}\n"
                    "namespace detail {\n}\n}\n")
          .empty());

  CHECK(violations_of("hugectr_lite/ops/x.cu",
                      "#include <cuda_runtime.h>\n#include \"hugectr_lite/core/launch.cuh\"\n"
                      "#include \"hugectr_lite/ops/x.h\"\nlaunch(shape, f);  // no <<<>>>\n")
            .empty());
  CHECK(bad_names({"a/x.h", "b/x.cuh"}) ==
        std::vector<std::string>{"b/x.cuh:1: shares its stem with a/x.h"});
  CHECK(bad_names({"a/utils.cpp", "a/x.h", "a/x.cpp"}).size() == 1);
}

}  // namespace
}  // namespace hlite::test
