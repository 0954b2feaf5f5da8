#include "hugectr_lite/trainer/run/traffic.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "hugectr_lite/core/error.h"

namespace hlite::trainer {
namespace {

using comm::TrafficTotals;

double per_iteration(int64_t n, int64_t iterations) {
  return iterations > 0 ? static_cast<double>(n) / static_cast<double>(iterations) : 0;
}

std::string line(const std::string& name, const TrafficTotals& t, int64_t iterations) {
  const auto mean = [&](int64_t n) { return per_iteration(n, iterations); };
  return fmt::format("  {:32}{:>14.0f}{:>14.0f}{:>10.1f}{:>10.1f}{:>14.0f}{:>14.0f}\n", name,
                     mean(t.intra_bytes), mean(t.inter_bytes), mean(t.intra_messages),
                     mean(t.inter_messages), mean(t.intra_received), mean(t.inter_received));
}

nlohmann::ordered_json json_of(const TrafficTotals& t, int64_t iterations) {
  nlohmann::ordered_json json;
  for (const auto& [name, at] : comm::kTrafficCounts) json[name] = per_iteration(t.*at, iterations);
  return json;
}

TrafficTotals of_rank(const std::vector<TrafficRow>& steps, size_t rank) {
  TrafficTotals total;
  for (const TrafficRow& row : steps) total += row.of_rank[rank];
  return total;
}

}  // namespace

TrafficTotals TrafficRow::sum() const {
  TrafficTotals total;
  for (const TrafficTotals& t : of_rank) total += t;
  return total;
}

std::string TrafficReport::text() const {
  std::string text = fmt::format("traffic of an iteration, mean of {}\n  {:32}{:>28}{:>20}{:>28}\n",
                                 iterations, "", "bytes sent", "messages sent", "bytes received");
  text += fmt::format("  {:32}{:>14}{:>14}{:>10}{:>10}{:>14}{:>14}\n", "all ranks together",
                      "in node", "between", "in node", "between", "in node", "between");
  TrafficTotals embedding;
  for (const TrafficRow& row : steps) {
    text += line(row.step, row.sum(), iterations);
    if (!row.step.starts_with("dense_")) embedding += row.sum();
  }
  const TrafficTotals plain_sum = plain.sum();
  text += line("embedding together", embedding, iterations);
  text += line("plain model-parallel instead", plain_sum, 1);
  if (plain_sum.inter_bytes > 0 && iterations > 0)
    text += fmt::format("  between nodes the embedding sends {:.1f} % of plain\n",
                        100.0 * per_iteration(embedding.inter_bytes, iterations) /
                            static_cast<double>(plain_sum.inter_bytes));
  for (size_t r = 0; r < plain.of_rank.size(); ++r)
    text += line(fmt::format("rank {}, all steps", r), of_rank(steps, r), iterations);
  for (size_t r = 0; r < host_to_device.size(); ++r)
    text += fmt::format("  {:32}{:>14.0f} bytes of samples\n",
                        fmt::format("rank {}, from host to device", r),
                        per_iteration(host_to_device[r], iterations));
  return text;
}

std::string TrafficReport::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array(),
                         ranks = nlohmann::ordered_json::array();
  for (const TrafficRow& row : steps) {
    nlohmann::ordered_json entry = {{"step", row.step}};
    entry.update(json_of(row.sum(), iterations));
    list.push_back(std::move(entry));
  }
  for (size_t r = 0; r < plain.of_rank.size(); ++r)
    ranks.push_back(json_of(of_rank(steps, r), iterations));
  nlohmann::ordered_json all = {{"iterations", iterations},
                                {"steps", std::move(list)},
                                {"plain", json_of(plain.sum(), 1)},
                                {"ranks", std::move(ranks)}};
  for (const int64_t bytes : host_to_device)
    all["host_to_device_bytes"].push_back(per_iteration(bytes, iterations));
  return all.dump();
}

TrafficRow plain_traffic(const Model& model, const comm::Topology& topology, int64_t batch) {
  const int n = topology.ranks();
  TrafficRow row{"plain", std::vector<TrafficTotals>(static_cast<size_t>(n))};
  const auto send = [&](int from, int to, int64_t bytes) {
    TrafficTotals &sender = row.of_rank[static_cast<size_t>(from)],
                  &receiver = row.of_rank[static_cast<size_t>(to)];
    const bool intra = topology.node_of(from) == topology.node_of(to);
    (intra ? sender.intra_bytes : sender.inter_bytes) += bytes;
    (intra ? sender.intra_messages : sender.inter_messages) += 1;
    (intra ? receiver.intra_received : receiver.inter_received) += bytes;
  };
  for (const auto& e : model.layers().embeddings)
    for (int owner = 0; owner < n; ++owner) {
      const auto& tables = e->layout().table_of;
      const int64_t slots =
          std::count_if(tables.begin(), tables.end(), [&](int64_t t) { return t % n == owner; });
      const int64_t bytes =
          slots * (batch / n) * e->layout().width * static_cast<int64_t>(sizeof(float));
      for (int q = 0; q < n && slots > 0; ++q) {
        if (q == owner) continue;
        send(owner, q, bytes);  // vectors
        send(q, owner, bytes);  // their gradients
      }
    }
  return row;
}

ModelTraffic model_traffic(const Model& model) {
  return {model.traffic(), model.batch().copied_bytes()};
}

TrafficReport collect_traffic(const Exec& exec, const Model& model, const comm::RankContext& ranks,
                              const ModelTraffic& without, int64_t iterations, int64_t batch) {
  const auto of_all = [&]<typename T>(const std::vector<T>& mine) {
    std::vector<T> all(mine.size() * static_cast<size_t>(ranks.ranks()));
    ranks.world->all_gather(exec, std::as_bytes(std::span(mine)),
                            std::as_writable_bytes(std::span(all)));
    return all;
  };
  const ModelTraffic now = model_traffic(model);
  std::vector<TrafficTotals> mine;
  for (size_t i = 0; i < now.steps.size(); ++i)
    mine.push_back(now.steps[i].totals - without.steps[i].totals);
  const auto all = of_all(mine);
  TrafficReport report{.iterations = iterations, .steps = {}, .plain = {}};
  for (size_t i = 0; i < now.steps.size(); ++i) {
    TrafficRow row{now.steps[i].step, {}};
    for (size_t r = 0; r < static_cast<size_t>(ranks.ranks()); ++r)
      row.of_rank.push_back(all[r * now.steps.size() + i]);
    report.steps.push_back(std::move(row));
  }
  report.plain = plain_traffic(model, *ranks.topology, batch);
  if (model.gpu())
    report.host_to_device = of_all(std::vector{now.host_to_device - without.host_to_device});
  return report;
}

}  // namespace hlite::trainer
