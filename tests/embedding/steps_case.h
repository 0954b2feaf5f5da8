// An iteration of a layer's tables, and what must come of it.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "embedding/embedding_tables.h"
#include "hugectr_lite/comm/device_communicator.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/half.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"

namespace hlite::embedding {

constexpr int64_t kStepWidth = 3, kStepBatch = 5;  // samples of one rank
constexpr float kStepRate = 0.5f;

inline TablesSpec steps_spec() {
  return {.name = "emb",
          .layout = SlotLayout({11, 1, 5}, kStepWidth),
          .rule = {.type = optimizer::OptimizerType::kSgd},
          .seed = 9};
}

inline uint32_t key_of(int rank, int64_t sample, int64_t slot) {
  return random::word(1, static_cast<uint64_t>(rank), static_cast<uint64_t>(sample * 3 + slot)) %
         static_cast<uint32_t>(steps_spec().layout.rows[static_cast<size_t>(slot)]);
}
// Small whole numbers: their sums, and half of those, are exact.
inline float gradient_of(int rank, int64_t element) {
  return static_cast<float>(
             random::word(2, static_cast<uint64_t>(rank), static_cast<uint64_t>(element)) % 9) -
         4;
}

// All elements of tensors, as rank 0 gets them; collective.
inline std::vector<float> elements_of(const std::vector<TensorRef>& tensors) {
  std::vector<float> all;
  for (const TensorRef& tensor : tensors) {
    std::vector<float> rows(static_cast<size_t>(tensor.size()));
    if (tensor.data)
      std::copy_n(tensor.data, tensor.size(), rows.begin());
    else
      tensor.get(0, rows);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

inline std::vector<float> rows_of(const EmbeddingTables& tables) {
  return elements_of(tables.tables());
}

// What a rank's tables are to be.
struct StepsOptions {
  int64_t capacity = 0;
  FloatType wire = FloatType::kFloat;
  int64_t hashed_rows = 0;                      // of a rank, for hashed tables; else 0
  KeyOwner owner = KeyOwner::kByKey;            // and there
  bool gathers = false;                         // every rank gets all keys
  comm::DeviceCommunicator* devices = nullptr;  // of the same ranks, where they are GPUs
  Exec exec = {};                               // there
  optimizer::UpdateRule rule = steps_spec().rule;
  FloatType precision = FloatType::kFloat;  // of rows
  const TierKind* tier = nullptr;
};

// A rank's tables with what an iteration needs.
class StepsOfRank {
 public:
  StepsOfRank(comm::Communicator& world, const StepsOptions& options)
      : rank_(world.rank()),
        exec_(options.devices ? options.exec : Exec{.pool = &pool_}),
        tables_(spec_of(options), place_of(world, options)) {
    tables_.declare(buffers_);
    const auto add = [&](const char* name, plan::BufferKind kind, int64_t bytes) {
      return buffers_.add(name, kind, bytes);
    };
    // Not an input: those change sides on a GPU.
    io_.keys = add("keys", plan::BufferKind::kState, kStepBatch * 3 * 4);
    io_.output = add("output", plan::BufferKind::kActivation, kStepBatch * 3 * kStepWidth * 4);
    io_.grad = add("grad", plan::BufferKind::kState, kStepBatch * 3 * kStepWidth * 4);
    io_.rate = add("rate", plan::BufferKind::kState, 4);
    io_.step = add("step", plan::BufferKind::kState, 8);
    if (world.size() > 1)
      io_.capacity_exceeded = add("capacity_exceeded", plan::BufferKind::kState, 4);
    if (options.gathers) add_gather(world, options);
    tables_.steps().emit_forward(plan_, io_);
    tables_.steps().emit_backward(plan_, io_);
    tables_.steps().emit_update(plan_, io_);
    io_.training = false;
    tables_.steps().emit_forward(evaluation_, io_);
    if (exec_.on_gpu())
      buffers_.allocate(*exec_.cuda);
    else
      buffers_.allocate();
    tables_.prepare();
    tables_.initialize({.pool = &pool_});
    buffers_.set_value(io_.rate, kStepRate);
    buffers_.set_value(io_.step, int64_t{1});
    if (io_.capacity_exceeded != plan::kNoBuffer)
      buffers_.set_value(io_.capacity_exceeded, int32_t{0});
  }

  // Both return what was looked up. `all_samples`: of all ranks; where they gather keys, the first
  // ones are full, one has the rest, others none.
  std::vector<float> iterate(int64_t samples, int64_t all_samples = 0) {
    return run(plan_, samples, all_samples);
  }
  std::vector<float> evaluate(int64_t samples) { return run(evaluation_, samples, 0); }
  [[nodiscard]] EmbeddingTables& tables() { return tables_; }
  [[nodiscard]] const Exec& exec() const { return exec_; }
  // Whether the last run counts for nothing; clears that.
  bool take_capacity_exceeded() {
    const bool found = buffers_.value<int32_t>(io_.capacity_exceeded) != 0;
    buffers_.set_value(io_.capacity_exceeded, int32_t{0});
    return found;
  }

 private:
  std::vector<float> run(const plan::Plan& plan, int64_t samples, int64_t all_samples) {
    std::vector<uint32_t> keys;
    std::vector<float> gradients;
    for (int64_t i = 0; i < samples * 3; ++i) keys.push_back(key_of(rank_, i / 3, i % 3));
    for (int64_t i = 0; i < samples * 3 * kStepWidth; ++i)
      gradients.push_back(gradient_of(rank_, i));
    buffers_.write<uint32_t>(io_.keys, 0, keys);
    buffers_.write<float>(io_.grad, 0, gradients);
    plan::run_in_order(plan, {.exec = exec_, .batch = samples, .global_batch = all_samples});
    if (exec_.on_gpu()) exec_.cuda->stream_synchronize(exec_.stream);
    std::vector<float> out(gradients.size());
    buffers_.read(io_.output, 0, std::span(out));
    return out;
  }
  static TablesSpec spec_of(const StepsOptions& options) {
    TablesSpec spec = steps_spec();
    spec.hash_capacity = options.hashed_rows;
    spec.init_rows = spec.layout.rows;
    spec.rule = options.rule;
    spec.table_type = options.precision;
    return spec;
  }
  static TablesPlace place_of(comm::Communicator& world, const StepsOptions& options) {
    const int n = world.size();
    TablesPlace place{.ranks = {.rank = world.rank(),
                                .topology = std::make_shared<comm::Topology>(world.topology()),
                                .world = &world,
                                .devices = options.devices},
                      .exchange = {.capacity = options.capacity},
                      .gathers_keys = options.gathers,
                      .max_batch = kStepBatch,
                      .train_batch = kStepBatch,
                      .gpu = options.exec.cuda,
                      .wire = options.wire,
                      .memory = {.kind = options.tier}};
    std::vector<int> all;
    for (int q = 0; q < n; ++q) all.push_back(q);
    if (n > 1)
      place.placement = std::make_shared<RowPlacement>(
          RowPlacement::by_table(steps_spec().layout, {all, {n - 1}, {0}}, n));
    if (options.hashed_rows > 0)
      place.placement = std::make_shared<RowPlacement>(
          RowPlacement::by_key(steps_spec().layout, n, options.hashed_rows, options.owner));
    return place;
  }

  void add_gather(comm::Communicator& world, const StepsOptions& options) {
    constexpr int64_t kBytes = kStepBatch * 3 * 4;
    io_.all_keys = buffers_.add("all_keys", plan::BufferKind::kActivation, world.size() * kBytes);
    comm::Communicator* const by =
        options.devices ? static_cast<comm::Communicator*>(options.devices) : &world;
    plan_.add({.name = "keys_gather",
               .lane = plan::Lane::kComm,
               .reads = {io_.keys},
               .writes = {io_.all_keys},
               .run = [this, by](const plan::StepContext& c) {
                 const auto bytes = [&](plan::BufferId id) {
                   return std::span(buffers_.data<std::byte>(id),
                                    static_cast<size_t>(buffers_.bytes(id)));
                 };
                 by->all_gather(c.exec, bytes(io_.keys), bytes(io_.all_keys), 1);
               }});
  }

  int rank_;
  ThreadPool pool_{1};
  const Exec exec_;
  plan::Buffers buffers_;
  plan::Plan plan_{buffers_}, evaluation_{buffers_};
  EmbeddingTables tables_;
  TablesIo io_;
};

// Row `key` of a slot among all rows.
inline std::ptrdiff_t place_in(const SlotLayout& layout, int64_t slot, uint32_t key) {
  return (layout.offset[static_cast<size_t>(slot)] + key) * kStepWidth;
}

// The tables after an iteration in which each rank had so many samples, from the initial values.
inline std::vector<float> updated(std::vector<float> rows, const std::vector<int64_t>& samples) {
  const SlotLayout layout = steps_spec().layout;
  std::vector<float> sums(rows.size());
  for (size_t q = 0; q < samples.size(); ++q)
    for (int64_t i = 0; i < samples[q] * 3; ++i)
      for (int64_t v = 0; v < kStepWidth; ++v)
        sums[static_cast<size_t>(
            place_in(layout, i % 3, key_of(static_cast<int>(q), i / 3, i % 3)) + v)] +=
            gradient_of(static_cast<int>(q), i * kStepWidth + v);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] -= kStepRate * sums[i];
  return rows;
}

inline std::vector<float> initial_values() {
  ThreadPool pool(1);
  const TablesSpec of = steps_spec();
  std::vector<float> rows(static_cast<size_t>(of.layout.total_rows * kStepWidth));
  init_tables({.pool = &pool}, of.seed, of.name, of.layout,
              {rows.data(), of.layout.total_rows, kStepWidth});
  return rows;
}

// What rank `rank` looks up: rows in `first`, as they travel.
inline std::vector<float> looked_up(const std::vector<float>& first, int rank, int64_t samples,
                                    FloatType wire) {
  const SlotLayout layout = steps_spec().layout;
  std::vector<float> want;
  for (int64_t i = 0; i < samples * 3; ++i) {
    const auto row = first.begin() + place_in(layout, i % 3, key_of(rank, i / 3, i % 3));
    for (int64_t v = 0; v < kStepWidth; ++v)
      want.push_back(wire == FloatType::kBf16 ? to_float(from_float<bf16>(row[v])) : row[v]);
  }
  return want;
}

// Samples of each rank: a full batch, none, ...
inline std::vector<int64_t> samples_of(int ranks) {
  std::vector<int64_t> samples;
  for (int q = 0; q < ranks; ++q) samples.push_back((kStepBatch + q) % (kStepBatch + 1));
  return samples;
}

// on_ranks(ranks, options, body) calls body(world, its StepsOfRank) for each rank.

// An iteration of any number of ranks, some without samples, in float and in 16 bits on the wire.
template <typename OnRanks>
void check_definition(const OnRanks& on_ranks) {
  const auto first = initial_values();
  for (const int ranks : {2, 3, 7})
    for (const FloatType wire : {FloatType::kFloat, FloatType::kBf16}) {
      INFO(ranks << " ranks, " << float_type_name(wire));
      const auto samples = samples_of(ranks);
      std::vector<std::vector<float>> got(static_cast<size_t>(ranks));
      std::vector<float> after;
      on_ranks(ranks, StepsOptions{.wire = wire},
               [&](comm::Communicator& world, StepsOfRank& rank) {
                 const auto q = static_cast<size_t>(world.rank());
                 got[q] = rank.iterate(samples[q]);
                 auto rows = rows_of(rank.tables());
                 if (q == 0) after = std::move(rows);
               });
      for (int q = 0; q < ranks; ++q)
        CHECK((got[static_cast<size_t>(q)] ==
               looked_up(first, q, samples[static_cast<size_t>(q)], wire)));
      CHECK((after == updated(first, samples)));  // gradients are small whole numbers
    }
}

// Lists made from the keys of all ranks: full batches, a small one, none.
template <typename OnRanks>
void check_gathered(const OnRanks& on_ranks) {
  const auto first = initial_values();
  for (const int ranks : {2, 3, 7})
    for (const int64_t all : {ranks * kStepBatch, kStepBatch + 1, int64_t{0}}) {
      INFO(ranks << " ranks, " << all << " samples");
      std::vector<int64_t> samples;
      for (int q = 0; q < ranks; ++q)
        samples.push_back(std::clamp<int64_t>(all - q * kStepBatch, 0, kStepBatch));
      std::vector<std::vector<float>> got(static_cast<size_t>(ranks));
      std::vector<float> after;
      std::vector<std::string> traffic(static_cast<size_t>(ranks));
      on_ranks(ranks, StepsOptions{.gathers = true},
               [&](comm::Communicator& world, StepsOfRank& rank) {
                 const auto q = static_cast<size_t>(world.rank());
                 got[q] = rank.iterate(samples[q], all);
                 for (const auto& step : rank.tables().steps().exchange()->traffic())
                   traffic[q] += step.step + " ";
                 auto rows = rows_of(rank.tables());
                 if (q == 0) after = std::move(rows);
               });
      for (int q = 0; q < ranks; ++q) {
        const auto i = static_cast<size_t>(q);
        CHECK((got[i] == looked_up(first, q, samples[i], FloatType::kFloat)));
        CHECK(traffic[i] == "emb.rows_exchange emb.grads_exchange ");
      }
      CHECK((after == updated(first, samples)));  // gradients are small whole numbers
    }
}

// Lists with a capacity of one row: nothing changes, then the capacity is grown.
template <typename OnRanks>
void check_growth(const OnRanks& on_ranks, bool gathers) {
  INFO("gathers " << gathers);
  constexpr int kRanks = 3;
  std::array<std::vector<float>, 3> rows;  // of rank 0: at first, after that run, after the next
  std::array<std::string, kRanks> grown;
  std::array<std::array<bool, 2>, kRanks> capacity_exceeded{};
  const StepsOptions options{.capacity = 1, .gathers = gathers};
  on_ranks(kRanks, options, [&](comm::Communicator& world, StepsOfRank& rank) {
    const auto q = static_cast<size_t>(world.rank());
    const auto keep = [&](size_t i) {
      auto now = rows_of(rank.tables());
      if (q == 0) rows[i] = std::move(now);
    };
    keep(0);
    (void)rank.iterate(kStepBatch, kRanks * kStepBatch);
    capacity_exceeded[q][0] = rank.take_capacity_exceeded();
    keep(1);
    grown[q] = rank.tables().steps().grow();
    (void)rank.iterate(kStepBatch, kRanks * kStepBatch);
    capacity_exceeded[q][1] = rank.take_capacity_exceeded();
    keep(2);
  });
  CHECK((rows[0] == initial_values()));
  CHECK((rows[1] == rows[0]));
  CHECK((rows[2] == updated(rows[0], {kStepBatch, kStepBatch, kStepBatch})));
  for (size_t q = 0; q < kRanks; ++q) {
    CHECK(capacity_exceeded[q] == std::array{true, false});
    CHECK(grown[q] == grown[0]);
    CHECK(grown[q].find("capacity 1;") != std::string::npos);
  }
}

}  // namespace hlite::embedding
