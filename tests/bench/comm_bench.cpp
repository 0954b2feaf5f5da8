// Times each collective of the Communicator, by size, compared with its estimate.
//
//   comm_bench [--device cpu|cuda] [--ranks N] [--nodes M] [--sizes 1K,64K,..] [--only NAME,..]
//              [--seconds S] [--system SYSTEM] [--machine FILE] [--quiet]
//
// Ranks are threads, under mpirun of a process a node; those on GPUs take them in turn and are
// joined by NCCL between processes. A size is that of what a collective is about: the values of an
// all-reduce, a reduce-scatter and a broadcast, all slices of an all-gather, what a rank sends in
// an all-to-all. Each is tried on numbers first. Eager: one call after the other; graph: the same,
// captured, where no two ranks share a GPU. "sent" is what the rank that sends most sends to
// others; GB/s are of that and of the eager call.
//
// "model" is the estimate's line, turns x latency + bytes / rate (trainer/estimate/machine.h), of
// --system ("dgx_h100", a machine's file); without one, of the link that is fitted to these very
// times. --machine puts the fitted link into a machine's file that train_bench --machine has
// written: ranks of one node give "in_node", one rank on each of several nodes gives "between".
// Prints a table on standard error and one JSON object on standard output.
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/exec_memory.h"
#include "hugectr_lite/trainer/report/line_file.h"
#include "tests/bench/bench_ranks.h"
#include "tests/bench/measured_machine.h"

namespace hlite::bench {
namespace {

struct CommOptions : RankOptions {
  std::vector<uint64_t> sizes = {uint64_t{1} << 10, uint64_t{1} << 14, uint64_t{1} << 18,
                                 uint64_t{1} << 22, uint64_t{1} << 26};
  std::vector<std::string> only;
  double seconds = 0.3;
  std::string system, machine;
  bool quiet = false;
};

// Memory of a rank, and the calls on `bytes` of it: the largest size that is asked for and more.
class Calls {
 public:
  Calls(const BenchRank& rank, comm::Communicator& comm, size_t largest)
      : rank_(rank),
        comm_(comm),
        a_(rank.exec(), largest, "a collective's values"),
        b_(rank.exec(), largest, "a collective's values"),
        sizes_(rank.exec(), 2 * static_cast<size_t>(rank.ranks()) * sizeof(int64_t), "sizes") {}

  static const std::vector<std::string>& names() {
    static const std::vector<std::string> all = {"all_reduce", "reduce_scatter", "all_gather",
                                                 "all_to_all_v", "broadcast"};
    return all;
  }

  // Once on numbers: the ranks' numbers from 1 on. Throws CommError for a wrong result.
  void check(const std::string& name, size_t bytes) {
    const size_t floats = bytes / sizeof(float);
    const auto own = static_cast<float>(rank_.rank() + 1);
    prepare(bytes);
    fill(a_, floats, own);
    fill(b_, floats, own);
    call(name, bytes);
    const int n = rank_.ranks();
    const auto sum = static_cast<float>(n * (n + 1) / 2);
    if (name == "all_reduce") return require(name, a_, 0, floats, sum);
    if (name == "broadcast") return require(name, a_, 0, floats, 1);
    if (name == "reduce_scatter") return require(name, b_, 0, slice(floats).size(), sum);
    const bool gather = name == "all_gather";
    for (int q = 0; q < n; ++q) {
      const auto each = static_cast<size_t>(capacity_) / sizeof(float);
      const comm::Slice part =
          gather ? comm::slice_of(floats, q, n)
                 : comm::Slice{static_cast<size_t>(q) * each, (static_cast<size_t>(q) + 1) * each};
      require(name, gather ? a_ : b_, part.begin, part.size(), static_cast<float>(q + 1));
    }
  }
  void zero(size_t bytes) const {
    fill(a_, bytes / sizeof(float), 0);
    fill(b_, bytes / sizeof(float), 0);
  }

  void call(const std::string& name, size_t bytes) const {
    const Exec exec = rank_.exec();
    const size_t floats = bytes / sizeof(float);
    const std::span a(reinterpret_cast<float*>(a_.data()), floats);
    const std::span b(reinterpret_cast<float*>(b_.data()), slice(floats).size());
    if (name == "all_reduce") return comm_.all_reduce(exec, a);
    if (name == "reduce_scatter") return comm_.reduce_scatter(exec, a, b);
    if (name == "all_gather")
      return comm_.all_gather(exec, std::as_bytes(b), std::as_writable_bytes(a), sizeof(float));
    if (name == "broadcast") return comm_.broadcast(exec, std::as_writable_bytes(a), 0);
    auto* const sizes = reinterpret_cast<int64_t*>(sizes_.data());
    comm_.all_to_all_v(exec, {.send = a_.data(),
                              .send_bytes = sizes,
                              .receive = b_.data(),
                              .received_bytes = sizes + rank_.ranks(),
                              .capacity = capacity_});
  }

 private:
  void prepare(size_t bytes) {
    const auto ranks = static_cast<size_t>(rank_.ranks());
    capacity_ = static_cast<int64_t>(bytes / ranks / 16 * 16);
    const std::vector<int64_t> full(2 * ranks, capacity_);
    put_bytes(rank_.exec(), sizes_.data(), full.data(), full.size() * sizeof(int64_t));
  }
  [[nodiscard]] comm::Slice slice(size_t floats) const {
    return comm::slice_of(floats, rank_.rank(), rank_.ranks());
  }
  void fill(const ExecMemory& memory, size_t floats, float value) const {
    const std::vector<float> values(floats, value);
    put_bytes(rank_.exec(), memory.data(), values.data(), floats * sizeof(float));
  }
  void require(const std::string& name, const ExecMemory& memory, size_t first, size_t floats,
               float want) const {
    std::vector<float> got(floats);
    rank_.synchronize();
    get_bytes(rank_.exec(), got.data(), memory.data() + first * sizeof(float),
              floats * sizeof(float));
    for (const float x : got)
      if (x != want)
        raise<comm::CommError>("{} of {} ranks is wrong on rank {}: expected {}, found {}", name,
                               rank_.ranks(), rank_.rank(), want, x);
  }

  const BenchRank& rank_;
  comm::Communicator& comm_;
  const ExecMemory a_, b_, sizes_;
  int64_t capacity_ = 0;
};

struct Measured {
  std::string name, route;
  size_t bytes = 0;
  trainer::ExchangeWork sends = {};
  double seconds = 0, graph = 0;  // of a call; 0: not captured
  [[nodiscard]] double sent() const { return sends.in_node + sends.between; }
};

Measured measure(const BenchRank& rank, comm::Communicator& comm, Calls& calls,
                 const CommOptions& o, const std::string& name, size_t bytes) {
  const comm::Topology& topology = comm.topology();
  Measured m{.name = name, .route = "flat", .bytes = bytes};
  const comm::TrafficTotals before = comm.traffic();
  calls.check(name, bytes);
  const comm::TrafficTotals sent = comm.traffic() - before;
  m.sends = {.nodes = topology.nodes(),
             .ranks_of_node = topology.ranks_on(0),
             .in_node = rank.largest(static_cast<double>(sent.intra_bytes)),
             .between = rank.largest(static_cast<double>(sent.inter_bytes)),
             .turns = name == "all_reduce" ? 2 : 1};
  calls.zero(bytes);
  const auto call = [&] { calls.call(name, bytes); };
  m.seconds = rank.seconds_of(o.seconds, false, call);
  if (rank.captures()) m.graph = rank.seconds_of(o.seconds, true, call);
  return m;
}

// On every rank alike.
std::vector<Measured> measure_all(const BenchRank& rank, const CommOptions& o) {
  const size_t largest = *std::max_element(o.sizes.begin(), o.sizes.end());
  std::vector<Measured> all;
  Calls calls(rank, rank.collectives(), largest);
  for (const std::string& name : o.only)
    for (const size_t bytes : o.sizes)
      all.push_back(measure(rank, rank.collectives(), calls, o, name, bytes));
  if (rank.gpu() || !rank.world().topology().rails_pay()) return all;
  const auto rails = rank.world().copy(comm::Route::kHierarchical);
  Calls by_rails(rank, *rails, largest);
  for (const std::string& name : o.only) {
    if (name != "all_reduce" && name != "all_to_all_v") continue;
    for (const size_t bytes : o.sizes) {
      all.push_back(measure(rank, *rails, by_rails, o, name, bytes));
      all.back().route = "rails";
    }
  }
  return all;
}

// The one link that ranks have, in a node of several or between nodes of one; by what the steps of
// an iteration exchange. Empty if there are two links, or too few sizes to fit a rate.
std::optional<MachineLink> fit(const CommOptions& o, const std::vector<Measured>& all) {
  if (o.ranks == 1 || (o.nodes > 1 && o.ranks > o.nodes)) return {};
  std::vector<MeasuredExchange> exchanges;
  for (const Measured& m : all)
    if (m.name != "broadcast") exchanges.push_back({m.sent(), m.sends.turns, m.seconds});
  try {
    return measured_link(o.nodes > 1 ? "network" : o.gpu ? "peers" : "memory", exchanges);
  } catch (const ConfigError& error) {
    if (!o.machine.empty()) throw;
    return {};
  }
}

void write_link(const CommOptions& o, const std::optional<MachineLink>& link) {
  if (!link)
    raise<ConfigError>(
        "--machine: expected several ranks on one node, or one on each of several, so that there "
        "is one link to measure, found {} ranks on {} nodes",
        o.ranks, o.nodes);
  Machine machine = trainer::parse_machine(config::JsonNode::parse_file(o.machine));
  (o.nodes > 1 ? machine.between : machine.in_node) = *link;
  trainer::LineFile(o.machine, /*append=*/false, "the machine").write(json_of(machine));
}

double model_seconds(const Machine& machine, const Measured& m) {
  const trainer::ExchangeSeconds s = exchange_seconds(machine, m.sends);
  return s.in_node + s.between;
}

void print(const CommOptions& o, const std::vector<Measured>& all,
           const std::optional<MachineLink>& link) {
  std::optional<Machine> machine;
  if (!o.system.empty()) {
    machine = trainer::parse_system(o.system).machine;
  } else if (link) {
    machine.emplace();
    machine->name = fmt::format("fitted to these times: {:.3g} GB/s, {:.3g} us",
                                link->bytes_per_s * 1e-9, link->seconds * 1e6);
    machine->in_node = machine->between = *link;
  }
  std::string json;
  if (!o.quiet)
    fmt::print(stderr,
               "{} ranks on {} node(s), {}; model: {}\n{:15}{:6}{:>10}{:>12}{:>12}{:>12}{:>9}"
               "{:>12}{:>10}\n",
               o.ranks, o.nodes, o.gpu ? "GPUs" : "CPU", machine ? machine->name : "none",
               "collective", "route", "bytes", "sent", "eager us", "graph us", "GB/s", "model us",
               "x model");
  for (const Measured& m : all) {
    const double model = machine ? model_seconds(*machine, m) : 0,
                 rate = m.sent() / m.seconds * 1e-9;
    const auto us = [](double seconds) {
      return seconds > 0 ? fmt::format("{:.2f}", seconds * 1e6) : std::string("-");
    };
    if (!o.quiet)
      fmt::print(stderr, "{:15}{:6}{:>10}{:>12.0f}{:>12}{:>12}{:>9.3f}{:>12}{:>10}\n", m.name,
                 m.route, m.bytes, m.sent(), us(m.seconds), us(m.graph), rate, us(model),
                 model > 0 ? fmt::format("{:.2f}", m.seconds / model) : "-");
    json += fmt::format(
        R"({}{{"name":"{}","route":"{}","bytes":{},"in_node":{:.0f},"between":{:.0f},"us":{:.3f},"graph_us":{:.3f},"gbs":{:.4f},"model_us":{:.3f}}})",
        json.empty() ? "" : ",", m.name, m.route, m.bytes, m.sends.in_node, m.sends.between,
        m.seconds * 1e6, m.graph * 1e6, rate, model * 1e6);
  }
  fmt::print(
      R"({{"device":"{}","ranks":{},"nodes":{},"link":{{"bytes_per_s":{:.4g},"seconds":{:.4g}}},"calls":[{}]}})"
      "\n",
      o.gpu ? "cuda" : "cpu", o.ranks, o.nodes, link ? link->bytes_per_s : 0,
      link ? link->seconds : 0, json);
}

int run(int argc, char** argv) {
  CommOptions o;
  CLI::App app("Times the collectives between ranks, by size.", "comm_bench");
  app.set_version_flag("--version", fmt::format("comm_bench {}", kVersion));
  add_rank_options(app, o);
  app.add_option("--ranks", o.ranks, "Of all nodes")->check(CLI::Range(1, 4096));
  app.add_option("--sizes", o.sizes, "Bytes, or 64K, 1M; at least 64 a rank")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--only", o.only, "Some of the collectives")
      ->delimiter(',')
      ->check(CLI::IsMember(Calls::names()));
  app.add_option("--seconds", o.seconds, "Of each measurement");
  app.add_option("--system", o.system, "The machine to compare with, as train --estimate takes it");
  app.add_option("--machine", o.machine, "Put the measured link into this file")->type_name("FILE");
  app.add_flag("--quiet", o.quiet, "No table, only the JSON line");
  CLI11_PARSE(app, argc, argv);
  if (o.only.empty()) o.only = Calls::names();
  for (const uint64_t bytes : o.sizes)
    if (bytes < 64 * static_cast<uint64_t>(o.ranks) || bytes % 4 != 0)
      raise<ConfigError>("--sizes: expected whole floats, 64 bytes a rank at least, found {}",
                         bytes);
  if (!o.system.empty()) (void)trainer::parse_system(o.system);
  on_ranks(o, [&](BenchRank& rank) {
    const std::vector<Measured> all = measure_all(rank, o);
    if (rank.rank() != 0) return;
    const auto link = fit(o, all);
    print(o, all, link);
    if (!o.machine.empty()) write_link(o, link);
  });
  return 0;
}

}  // namespace
}  // namespace hlite::bench

int main(int argc, char** argv) {
  return hlite::bench::run_bench("comm_bench", hlite::bench::run, argc, argv);
}
