// The traffic that `train` reports is what a plain count of the data predicts.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "tests/end_to_end/golden_run.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"

namespace hlite::test {
namespace {

using nlohmann::json;

// The golden run dlrm_fused: samples of int32 label, dense features and keys.
struct Samples {
  json config;
  std::vector<int64_t> offset, categories;  // [slots]; [samples * slots] key plus offset
  int64_t slots = 0, batch = 0, width = 0, rows = 0;

  explicit Samples(const GoldenRun& run) : config(json::parse(read_text(run / "config.json"))) {
    const json& data = config["layers"][0];
    const json& hparam = config["layers"][1]["sparse_embedding_hparam"];
    slots = data["sparse"][0]["slot_num"];
    batch = config["solver"]["batchsize"];
    width = hparam["embedding_vec_size"];
    for (const int64_t size : hparam["slot_size_array"]) {
      offset.push_back(rows);
      rows += size;
    }
    const int64_t dense = data["dense"]["dense_dim"], words = 1 + dense + slots;
    const std::string bytes = read_text(run / "train.bin");
    std::vector<int32_t> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), 4 * values.size());
    for (size_t at = 0; at < values.size(); at += static_cast<size_t>(words))
      for (int64_t s = 0; s < slots; ++s)
        categories.push_back(offset[static_cast<size_t>(s)] +
                             values[at + static_cast<size_t>(1 + dense + s)]);
  }
  [[nodiscard]] int64_t batches() const { return std::ssize(categories) / slots / batch; }
  [[nodiscard]] int64_t category(int64_t sample, int64_t slot) const {
    return categories[static_cast<size_t>(sample * slots + slot)];
  }
};

// Owner of each category; -1 where it is copied. By the published rule: frequent are the categories
// counted `threshold` times or more, as many of the next as make a multiple of the ranks; the k-th
// of the others belongs to rank k mod ranks.
std::vector<int> owners(const Samples& data, int ranks, int nodes) {
  std::map<int64_t, int64_t> count;
  for (int64_t i = 0; i < 20 * data.batch * data.slots; ++i)
    ++count[data.categories[static_cast<size_t>(i)]];
  std::vector<std::pair<int64_t, int64_t>> order;  // (-count, category)
  for (const auto& [category, n] : count) order.emplace_back(-n, category);
  std::sort(order.begin(), order.end());
  const double threshold = 20.0 * nodes * (1.9e11 / 1.3e11) * nodes / (nodes - 1.0);
  int64_t frequent = std::count_if(order.begin(), order.end(), [&](const auto& entry) {
    return static_cast<double>(-entry.first) >= threshold;
  });
  frequent = (frequent + ranks - 1) / ranks * ranks;
  std::vector<int> owner(static_cast<size_t>(data.rows), 0);
  for (int64_t i = 0; i < frequent; ++i)
    owner[static_cast<size_t>(order[static_cast<size_t>(i)].second)] = -1;
  int64_t k = 0;
  for (int& o : owner)
    if (o >= 0) o = static_cast<int>(k++ % ranks);
  return owner;
}

struct Predicted {
  double keys_intra = 0, keys_inter = 0, rows_intra = 0, rows_inter = 0;  // bytes an iteration
};

Predicted predict(const Samples& data, int ranks, int nodes, int64_t iterations) {
  const auto owner = owners(data, ranks, nodes);
  const auto node = [&](int rank) { return rank / (ranks / nodes); };
  Predicted p;
  for (int64_t b = 0; b < iterations; ++b)
    for (int r = 0; r < ranks; ++r) {
      std::vector<std::set<int64_t>> wanted(static_cast<size_t>(ranks));
      const int64_t rows = data.batch / ranks, first = b * data.batch + r * rows;
      for (int64_t i = first; i < first + rows; ++i)
        for (int64_t s = 0; s < data.slots; ++s) {
          const int64_t category = data.category(i, s);
          const int q = owner[static_cast<size_t>(category)];
          if (q >= 0 && q != r) wanted[static_cast<size_t>(q)].insert(category);
        }
      for (int q = 0; q < ranks; ++q) {
        if (q == r) continue;
        const auto n = static_cast<double>(wanted[static_cast<size_t>(q)].size());
        const double keys = 8 + 4 * n, vectors = n * static_cast<double>(data.width) * 4;
        (node(q) == node(r) ? p.keys_intra : p.keys_inter) += keys;
        (node(q) == node(r) ? p.rows_intra : p.rows_inter) += vectors;
      }
    }
  for (double* n : {&p.keys_intra, &p.keys_inter, &p.rows_intra, &p.rows_inter})
    *n /= static_cast<double>(iterations);
  return p;
}

// Reported means by step, of a run of `iterations` on ranks laid out as `gpu`.
std::map<std::string, json> reported(const GoldenRun& run, const std::string& gpu,
                                     const std::string& type, int64_t iterations) {
  const auto result = run_program(
      {HLITE_TRAIN, "--config", run / "config.json", "--quiet", "--threads", "2", "--metrics",
       run / "metrics.jsonl", "--set", "solver.gpu=" + gpu, "--set", "solver.eval_interval=10",
       "--set", "solver.max_iter=" + std::to_string(iterations), "--set",
       "layers.embedding.sparse_embedding_hparam.communication_type=" + type, "--traffic"});
  REQUIRE(result.code == 0);
  check_contains(result.out, {"plain model-parallel instead"});
  std::map<std::string, json> steps;
  for (const json& event : events_in(run / "metrics.jsonl", "traffic")) {
    CHECK(event["iterations"] == iterations);
    for (const json& step : event["steps"]) steps[step["step"]] = step;
    steps["plain"] = event["plain"];
  }
  return steps;
}

}  // namespace

TEST_CASE("the traffic reported is what the data predicts, step by step") {
  constexpr int64_t kIterations = 25;
  const GoldenRun run("dlrm_fused");
  const Samples data(run);
  for (const auto& [gpu, ranks, nodes] : {std::tuple<const char*, int, int>{"[[0],[1]]", 2, 2},
                                          {"[[0,1],[0,1]]", 4, 2},
                                          {"[[0],[1],[2],[3]]", 4, 4}}) {
    INFO(gpu);
    const Predicted want = predict(data, ranks, nodes, kIterations);
    const auto got = reported(run, gpu, "IB_NVLink", kIterations);
    const auto value = [&](const char* step, const char* what) {
      return got.at(step).at(what).get<double>();
    };
    CHECK(value("embedding.keys_exchange", "intra_bytes") == Approx(want.keys_intra).epsilon(1e-9));
    CHECK(value("embedding.keys_exchange", "inter_bytes") == Approx(want.keys_inter).epsilon(1e-9));
    for (const char* step : {"embedding.rows_exchange", "embedding.grads_exchange"}) {
      CHECK(value(step, "intra_bytes") == Approx(want.rows_intra).epsilon(1e-9));
      CHECK(value(step, "inter_bytes") == Approx(want.rows_inter).epsilon(1e-9));
      CHECK(value(step, "inter_received") == value(step, "inter_bytes"));
    }
    // Vectors of every sample's slots that lie elsewhere, and their gradients.
    const double all = 2.0 * static_cast<double>(data.batch * data.slots * data.width * 4);
    CHECK(value("plain", "inter_bytes") == Approx(all * (1 - 1.0 / nodes)).epsilon(1e-9));
    CHECK(value("plain", "intra_bytes") ==
          Approx(all * (1.0 / nodes - 1.0 / ranks)).epsilon(1e-9).margin(1e-9));
    CHECK(value("embedding.rows_exchange", "inter_bytes") <
          0.4 * value("plain", "inter_bytes") / 2);
  }
}

TEST_CASE(
    "the hierarchical exchange sends one message a node where the flat one sends one a rank") {
  const GoldenRun run("dlrm_fused");
  const auto flat = reported(run, "[[0,1],[0,1]]", "IB_NVLink", 5),
             hierarchical = reported(run, "[[0,1],[0,1]]", "IB_NVLink_Hierarchical", 5);
  for (const char* step :
       {"embedding.keys_exchange", "embedding.rows_exchange", "embedding.grads_exchange"}) {
    CHECK(flat.at(step).at("inter_messages").get<double>() == 8);
    CHECK(hierarchical.at(step).at("inter_messages").get<double>() == 4);
  }
}

}  // namespace hlite::test
