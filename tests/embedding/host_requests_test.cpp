#include "embedding/host_requests.h"

#include "tests/embedding/steps_case.h"

namespace hlite::embedding {
namespace {

std::vector<uint32_t> keys_of(int rank, int64_t samples) {
  std::vector<uint32_t> keys;
  for (int64_t i = 0; i < samples * 3; ++i) keys.push_back(key_of(rank, i / 3, i % 3));
  return keys;
}

// A rank's host, next to a RowExchange that finds the same in its steps.
struct HostOfRank {
  HostOfRank(comm::Communicator& world, StepsOfRank& steps, const StepsOptions& options)
      : rank(world.rank()),
        exchange(*steps.tables().steps().exchange()),
        spec(spec_of(options)),
        index(spec, steps.tables().storage(), Exec{}, 0, kStepBatch * 3 * world.size()),
        rows(spec, steps.tables().storage(), options.hashed_rows > 0 ? &index : nullptr, exchange,
             place_of(world)) {
    if (options.hashed_rows > 0) index.allocate();
    rows.prepare();
  }
  static TablesSpec spec_of(const StepsOptions& options) {
    TablesSpec spec = steps_spec();
    spec.hash_capacity = options.hashed_rows;
    spec.init_rows = spec.layout.rows;
    return spec;
  }
  static TablesPlace place_of(comm::Communicator& world) {
    TablesPlace place;
    place.ranks.rank = world.rank();
    place.ranks.topology = std::make_shared<comm::Topology>(world.topology());
    place.ranks.world = &world;
    place.max_batch = place.train_batch = kStepBatch;
    return place;
  }

  void begin_run(int64_t samples, const std::vector<uint32_t>* next = nullptr) {
    keys = keys_of(rank, samples);
    plan::HostInput input{.keys = keys.data()};
    if (next) {
      input.next_keys = next->data();
      input.next_batch = std::ssize(*next) / 3;
    }
    rows.begin_run({.pool = &pool}, input, samples);
  }
  std::vector<uint32_t> find(HostRows::Batch of, bool training) {
    std::vector<uint32_t> found(static_cast<size_t>(rows.shape(of).size()));
    (void)rows.find({.pool = &pool}, of, found.data(), training);
    return found;
  }
  [[nodiscard]] std::vector<uint32_t> requested() const {
    const auto of = exchange.requested_rows();
    return {of.data(), of.data() + of.size()};
  }

  const int rank;
  ThreadPool pool{1};
  const RowExchange& exchange;
  const TablesSpec spec;
  HashedIndex index;
  HostRequests rows;
  std::vector<uint32_t> keys;
};

// body(its host, its steps) on a thread for each rank.
template <typename Body>
void on_hosts(int ranks, const StepsOptions& options, const Body& body) {
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    StepsOfRank steps(world, options);
    HostOfRank host(world, steps, options);
    body(host, steps);
  });
}

}  // namespace

TEST_CASE("hosts list the rows that ranks request of each other, in their places", "[threads]") {
  for (const int ranks : {2, 3, 7})
    for (const int64_t hashed : {0, 17}) {
      INFO(ranks << " ranks, " << hashed << " hashed rows");
      const auto samples = samples_of(ranks);
      std::vector<std::array<std::vector<uint32_t>, 4>> got(static_cast<size_t>(ranks));
      on_hosts(ranks, {.hashed_rows = hashed}, [&](HostOfRank& host, StepsOfRank& steps) {
        const auto q = static_cast<size_t>(host.rank);
        host.begin_run(samples[q]);
        got[q][0] = host.find(HostRows::kThis, /*training=*/false);
        (void)steps.evaluate(samples[q]);
        // A list of keys has its rows where a batch is evaluated, and not in these steps.
        if (hashed == 0) got[q][1] = host.requested();
        got[q][2] = host.find(HostRows::kThis, /*training=*/true);
        (void)steps.iterate(samples[q]);
        got[q][3] = host.requested();
      });
      for (const auto& of : got) {
        CHECK((of[2] == of[3]));
        if (hashed == 0) CHECK((of[0] == of[1]));
        if (hashed > 0)
          for (const uint32_t row : of[0]) CHECK((row == kUnseen || row == kNoKey));
      }
    }
}

TEST_CASE("a host knows the next batch where all hosts do", "[threads]") {
  constexpr int kRanks = 3;
  struct Seen {
    std::vector<bool> was_next, has_next;
    std::vector<uint32_t> announced, came;
  };
  std::vector<Seen> seen(kRanks);
  on_hosts(kRanks, {}, [&](HostOfRank& host, StepsOfRank&) {
    Seen& of = seen[static_cast<size_t>(host.rank)];
    const auto run = [&](int64_t samples, const std::vector<uint32_t>* next) {
      host.begin_run(samples, next);
      of.was_next.push_back(host.rows.was_next());
      of.has_next.push_back(host.rows.has_next());
    };
    const auto three = keys_of(host.rank, 3), four = keys_of(host.rank, 4);
    run(2, &three);
    of.announced = host.find(HostRows::kNext, false);
    run(3, host.rank == 1 ? nullptr : &four);  // one reader is late
    of.came = host.find(HostRows::kThis, false);
    run(4, &three);
    run(host.rank == 2 ? 4 : 3, &four);  // another batch has come to one
    run(4, nullptr);
  });
  for (const Seen& of : seen) {
    CHECK(of.was_next == std::vector<bool>{false, true, false, false, true});
    CHECK(of.has_next == std::vector<bool>{true, false, true, true, false});
    CHECK((of.announced == of.came));
  }
}

TEST_CASE("hosts have no rows of lists that exceed the capacity, and theirs once it is grown",
          "[threads]") {
  constexpr int kRanks = 3;
  for (const int64_t hashed : {0, 17}) {
    INFO(hashed << " hashed rows");
    std::vector<std::array<std::vector<uint32_t>, 3>> got(kRanks);
    std::array<bool, kRanks> was_next{};
    on_hosts(kRanks, {.capacity = 1, .hashed_rows = hashed},
             [&](HostOfRank& host, StepsOfRank& steps) {
               const auto q = static_cast<size_t>(host.rank);
               const auto next = keys_of(host.rank, kStepBatch);
               host.begin_run(kStepBatch, &next);
               got[q][0] = host.find(HostRows::kThis, true);
               (void)steps.iterate(kStepBatch);
               (void)steps.take_capacity_exceeded();
               (void)steps.tables().steps().grow();
               host.begin_run(kStepBatch);
               was_next[q] = host.rows.was_next();
               got[q][1] = host.find(HostRows::kThis, true);
               (void)steps.iterate(kStepBatch);
               got[q][2] = host.requested();
             });
    for (size_t q = 0; q < kRanks; ++q) {
      CHECK((got[q][0] == std::vector<uint32_t>(kRanks, kNoKey)));
      CHECK_FALSE(was_next[q]);
      CHECK((got[q][1] == got[q][2]));
    }
  }
}

}  // namespace hlite::embedding
