#include <fmt/format.h>

#include <regex>
#include <set>

#include "hugectr_lite/metrics/metric.h"
#include "tests/support/catch.h"

namespace hlite::metrics {

TEST_CASE("Every metric is found by its name, and no other name") {
  std::set<std::string> names = {"AUC", "AverageLoss"};
  for (const Rule& rule : rules()) {
    std::string name = rule.name;
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK((rule.of_samples != nullptr) != (rule.of_groups != nullptr));
    CHECK(!std::string(rule.about).empty());
    const bool has_k = name.ends_with("@k");
    if (has_k) name.replace(name.size() - 1, 1, "10");
    const Metric metric = find(name).value();
    CHECK(metric.rule == &rule);
    CHECK(metric.k == (has_k ? 10 : 0));
    CHECK(metric.name == name);
    CHECK(is_grouped(metric) == (rule.of_groups != nullptr));
    CHECK(std::regex_match(name, std::regex(names_pattern(any))));
    for (const char* const wrong :
         {"", "@", "@k", "@0", "@-1", "@1.5", "@1 ", "@99999999999999999999"})
      CHECK(!find(name.substr(0, name.find('@')) + (has_k || *wrong != 0 ? wrong : "@1")));
  }
  for (const char* const name : {"", "AUC", "gauc", "Recall@3"}) {
    INFO(name);
    CHECK(!find(name));
    CHECK(!std::regex_match(name, std::regex(names_pattern(any))));
  }
}

TEST_CASE("Names of metrics in a sentence and in a pattern") {
  CHECK(names_text(grouped) == R"("GAUC", "NDCG@k" or "HitRate@k")");
  CHECK(names_text(grouped, "`", "and") == "`GAUC`, `NDCG@k` and `HitRate@k`");
  CHECK(names_pattern(grouped) == "GAUC|NDCG@[1-9][0-9]*|HitRate@[1-9][0-9]*");
}

}  // namespace hlite::metrics
