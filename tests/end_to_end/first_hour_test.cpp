// docs/first_hour.md does what it says: its commands, in their order, as they stand.
#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/program.h"
#include "tests/support/temporary_directory.h"

namespace hlite::test {
namespace {

// The page's blocks as one script; those of a kind that `left_out` names are not in it.
std::string script_of(const std::string& page, const std::string& left_out) {
  std::istringstream lines(page);
  std::string script, kind;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) {
      if (inside && kind == "python") script += "PYTHON_BLOCK\n";
      inside = !inside && line.size() > 3;
      kind = inside ? line.substr(3) : "";
      if (std::regex_search(kind, std::regex(left_out))) inside = false, kind = "left out";
      if (inside && kind == "python") script += "python3 - <<'PYTHON_BLOCK'\n";
    } else if (inside) {
      script += line + "\n";
    }
  }
  return script;
}

#ifdef HLITE_PYTHON_PACKAGE
TEST_CASE("the first hour's page does what it says") {
  const std::string root = HLITE_SOURCE_DIR;
  const TemporaryDirectory folder;
  for (const char* part : {"configs", "tools"})
    std::filesystem::create_directory_symlink(root + "/" + part, folder / part);
  // python3 is the one that the module was built for.
  std::filesystem::create_directory(folder / "bin");
  std::filesystem::create_symlink(HLITE_PYTHON, folder / "bin/python3");
  const std::string page = read_text(root + "/docs/first_hour.md");
  std::string script = script_of(page, "sh (build|pip)");
  CHECK(script.find("pip install") == std::string::npos);
  // A busy machine may take longer than the server's own limits allow.
  const std::string serve = "serve --model demo=hour/model --port 0 ";
  REQUIRE(script.find(serve) != std::string::npos);
  script.insert(script.find(serve) + serve.size(), "--deadline-ms 3600000 --request-s 3600 ");
  write_text(folder / "script.sh",
             "set -euo pipefail\nexport PATH=" + (folder / "bin") + ":" + HLITE_PROGRAMS +
                 ":$PATH PYTHONPATH=" HLITE_PYTHON_PACKAGE "\nmkdir hour\n" + script);
  const ProgramResult result = run_program({"/bin/bash", "script.sh"}, folder.path());
  INFO(result.out);
  REQUIRE(result.code == 0);
  check_contains(result.out, {"AUC 0.8"});
  CHECK(std::regex_search(result.out, std::regex("(\n0\\.[0-9]+){3}\n")));  // what serve answers
  CHECK(std::filesystem::exists(folder / "hour/model.onnx"));
  // The records' AUC and the lines' are the last evaluation's.
  std::vector<std::string> areas;
  const std::regex area("AUC (0\\.[0-9]{4})");
  for (std::sregex_iterator at(result.err.begin(), result.err.end(), area), end; at != end; ++at)
    areas.push_back((*at)[1]);
  REQUIRE(areas.size() >= 3);
  CHECK(areas[areas.size() - 1] == areas[areas.size() - 2]);
  CHECK(std::stod(areas.back()) == Approx(std::stod(areas[areas.size() - 3])).margin(2e-4));
}
#endif

TEST_CASE("blocks that are left out of the page's script are gone, the rest stands") {
  const std::string page =
      "a\n```sh pip\nx\n```\nb\n```sh\ny\n```\n```python\nz\n```\n```sh\nw\n```\n";
  CHECK(script_of(page, "sh (build|pip)") == "y\npython3 - <<'PYTHON_BLOCK'\nz\nPYTHON_BLOCK\nw\n");
}

}  // namespace
}  // namespace hlite::test
