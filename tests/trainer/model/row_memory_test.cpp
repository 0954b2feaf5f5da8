// Decisions of "embedding_memory": "auto" for several machines, and warnings about folders.
#include "hugectr_lite/trainer/model/row_memory.h"

#include <filesystem>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/model/run_memory.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using trainer::AvailableMemory;
using trainer::Model;
using trainer::RowMemoryDecision;

const std::string kAuto = "solver.embedding_memory=auto";
// Rows of 4 floats and two states of an Adam in tables of 20 M rows: 960 MB.
const std::vector<std::string> kLarge = {
    kAuto, "solver.algorithm_search=false",
    R"(layers.emb.sparse_embedding_hparam.slot_size_array=[10000000,5,9999995])",
    R"(layers.data.slot_size_array=[10000000,5,9999995])",
    R"(layers.emb.optimizer={"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,"beta1":0.9,"beta2":0.999,"epsilon":1e-8}})"};

DiskFolder disk(double gigabytes, FolderKind kind = FolderKind::kLocal) {
  return {.usable = true,
          .kind = kind,
          .file_system = kind == FolderKind::kLocal ? "" : "nfs",
          .free_bytes = static_cast<int64_t>(gigabytes * 1e9)};
}

struct Machine {
  SmallRun run;
  std::unique_ptr<config::TrainConfig> config;
  const cuda::Backend* gpu = nullptr;
  std::vector<trainer::LayerPlacement> placements;

  explicit Machine(std::vector<std::string> changes = {}, const cuda::Backend* device = nullptr)
      : gpu(device) {
    changes.insert(changes.begin(), kLarge.begin(), kLarge.end());
    config = config::load_train_config(run / "config.json", changes);
    placements = trainer::make_placements(*config, trainer::topology_of(config->solver), true);
  }
  [[nodiscard]] comm::RankContext ranks() const {
    return {.topology = std::make_shared<comm::Topology>(trainer::topology_of(config->solver))};
  }
  [[nodiscard]] trainer::RowMemorySetup setup() const {
    return {.config = *config, .placements = placements, .gpu = gpu, .ranks = ranks()};
  }
  [[nodiscard]] RowMemoryDecision decide(const AvailableMemory& available) const {
    return trainer::decide_row_memory(setup(), available);
  }
  [[nodiscard]] Model model(const RowMemoryDecision& decision) const {
    return {*config,
            1,
            1,
            {.context = ranks(), .placements = placements, .tiers = decision.tiers},
            gpu};
  }
};

}  // namespace

TEST_CASE("auto keeps all rows in memory if they fit") {
  const Machine machine;
  const RowMemoryDecision decision = machine.decide({.host_bytes = 10'000'000'000});
  CHECK_FALSE(decision.tiers.memory);
  CHECK(decision.warnings.empty());
  REQUIRE(decision.lines.size() == 1);
  check_contains(decision.lines[0], {"embedding_memory \"auto\": all rows are in memory",
                                     "needed, 10.0 GB available"});
  CHECK(tiers_of(machine.model(decision)).empty());
}

TEST_CASE(
    "a run takes the memory of all its ranks, and says what to write where that is too much") {
  for (const char* ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const Machine machine({gpu(ranks), "solver.embedding_memory="});
    const Model model = machine.model({});
    const auto run = trainer::memory_of_run(*machine.config, model, 1);
    const int64_t needed = host_bytes_here(run);
    CHECK(needed > 960'000'000);
    CHECK(needed < 1'300'000'000);
    CHECK(host_shortage(run, needed).empty());
    check_contains(host_shortage(run, 500'000'000),
                   {"memory: expected ", "found 500.0 MB", "solver.embedding_memory=auto",
                    "embedding_vec_size", "emb.table_0 (10000000 rows, 160.0 MB)"});
  }
  // Not the tables, but a batch.
  const Machine batches({"solver.embedding_memory=", "solver.batchsize=20000000",
                         "layers.emb.sparse_embedding_hparam.slot_size_array=[40,5,300]",
                         "layers.data.slot_size_array=[40,5,300]"});
  const Model model = batches.model({});
  const auto run = trainer::memory_of_run(*batches.config, model, 1);
  check_contains(host_shortage(run, 500'000'000), {"a smaller solver.batchsize"});
}

TEST_CASE("auto puts rows that do not fit on a disk, on one rank and several") {
  for (const char* ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
    INFO(ranks);
    const Machine machine({gpu(ranks)});
    // The maps of rows, and all other memory, take a part of it.
    const int64_t available = 1'000'000'000;
    const RowMemoryDecision decision =
        machine.decide({.host_bytes = available, .folders = {{machine.run.path(), disk(9)}}});
    REQUIRE(decision.tiers.memory);
    CHECK(decision.tiers.memory->automatic);
    CHECK(decision.tiers.memory->disk == machine.run.path());
    CHECK(decision.tiers.memory->host_gb < 0.9);
    REQUIRE(decision.lines.size() == 1);
    check_contains(decision.lines[0],
                   {"rows and their optimizer states take 960.0 MB", "1.0 GB are available",
                    "the others are on the disk " + machine.run.path() + " (9.0 GB free)"});
    const Model model = machine.model(decision);
    const auto tiers = tiers_of(model);
    REQUIRE(tiers.size() == 1);
    CHECK(tiers[0].resident < tiers[0].rows);
    CHECK(tiers[0].resident > 0);
    // With it the run fits into the memory of the machine.
    CHECK(memory_of(model).total() * machine.config->solver.ranks() <= available);
  }
}

TEST_CASE("auto takes the first local disk with enough space, else the one with the most") {
  const Machine machine;
  const auto folder = [&](std::vector<trainer::ScratchFolder> folders) {
    return machine.decide({.host_bytes = 900'000'000, .folders = std::move(folders)});
  };
  const auto network = disk(100, FolderKind::kNetwork), memory = disk(100, FolderKind::kMemory);
  CHECK(folder({{"/n", network}, {"/a", disk(3)}, {"/b", disk(4)}}).tiers.memory->disk == "/a");
  CHECK(folder({{"/a", disk(0.01)}, {"/b", disk(2)}}).tiers.memory->disk == "/b");
  const auto small = folder({{"/a", disk(0.001)}, {"/b", disk(0.002)}, {"/m", memory}});
  CHECK(small.tiers.memory->disk == "/b");
  REQUIRE(small.warnings.size() == 1);
  check_contains(small.warnings[0], {"/b has 2.0 MB free", "take up to"});
  const auto far = folder({{"/n", network}, {"/m", memory}});
  CHECK(far.tiers.memory->disk == "/n");
  REQUIRE(far.warnings.size() == 1);
  check_contains(far.warnings[0], {"/n is on a file system of a network (nfs)", "local disk"});
}

TEST_CASE("auto: what no way of training fits") {
  const Machine machine;
  const AvailableMemory available{.host_bytes = 900'000'000, .folders = {}};
  check_contains(message_of<ConfigError>([&] {
                   (void)machine.decide({.host_bytes = 900'000'000,
                                         .folders = {{"/m", disk(9, FolderKind::kMemory)}}});
                 }),
                 {"solver.embedding_memory \"auto\": expected a folder on a disk for", "/m"});
  check_contains(message_of<ConfigError>([&] { (void)machine.decide({.host_bytes = 1'000'000}); }),
                 {"solver.embedding_memory \"auto\", host_gb: expected at least"});
  const Machine global({R"(layers.emb.optimizer.update_type="Global")"});
  check_contains(message_of<ConfigError>([&] { (void)global.decide(available); }),
                 {"layers[1].optimizer", "update_type \"Local\"", "solver.embedding_memory"});
  CHECK_FALSE(global.decide({.host_bytes = 10'000'000'000}).tiers.memory);
}

TEST_CASE("auto on a GPU: its memory, then that of the host") {
  const Machine machine({}, &emulated_cuda());
  const RowMemoryDecision whole =
      machine.decide({.host_bytes = 10'000'000'000, .gpu_bytes = 2'000'000'000});
  CHECK_FALSE(whole.tiers.memory);
  check_contains(whole.lines.at(0), {"all rows are in the memory of the GPU", "2.0 GB free"});
  const AvailableMemory small{.host_bytes = 10'000'000'000, .gpu_bytes = 1'000'000'000};
  const RowMemoryDecision decision = machine.decide(small);
  REQUIRE(decision.tiers.memory);
  CHECK(decision.tiers.memory->gpu_gb > 0);
  check_contains(decision.lines.at(0), {"1.0 GB are free", "page-locked memory of the host"});
  const Model model = machine.model(decision);
  REQUIRE(tiers_of(model).size() == 1);
  const trainer::MemoryEstimate m = memory_of(model);
  CHECK(model.buffers().device_bytes() + m.workspace + m.matmul <= small.gpu_bytes);
  check_contains(message_of<ConfigError>([&] {
                   (void)machine.decide({.host_bytes = 10'000'000'000, .gpu_bytes = 90'000'000});
                 }),
                 {"solver.embedding_memory \"auto\", gpu_gb: expected at least"});
  const Machine elsewhere({}, &trainer::absent_gpu());
  check_contains(elsewhere.decide({}).lines.at(0), {"decided where the run starts"});
}

TEST_CASE(
    "auto on a GPU: a disk under the memory of the host, for one GPU, unless tables are trained by key") {
  const Machine machine({}, &emulated_cuda());
  AvailableMemory available{.host_bytes = 900'000'000,
                            .gpu_bytes = 700'000'000,
                            .folders = {{"/n", disk(99, FolderKind::kNetwork)}, {"/a", disk(3)}}};
  const RowMemoryDecision decision = machine.decide(available);
  REQUIRE(decision.tiers.memory);
  CHECK(decision.tiers.memory->automatic);
  CHECK(decision.tiers.memory->disk == "/a");
  CHECK(decision.tiers.memory->gpu_gb < 0.7);
  CHECK(decision.tiers.memory->host_gb < 0.81);
  CHECK(decision.tiers.memory->host_gb > 0.5);
  check_contains(decision.lines.at(0),
                 {"700.0 MB are free", "of 900.0 MB available on the host hold rows",
                  "the others are on the disk /a (3.0 GB free)"});
  const Model model = machine.model(decision);
  const auto tiers = tiers_of(model);
  REQUIRE(tiers.size() == 2);
  CHECK(tiers[0].resident < tiers[1].resident);
  CHECK(tiers[0].in_second == tiers[1].resident);
  CHECK(tiers[1].resident < tiers[1].rows);
  CHECK(tiers[1].is_lower);
  CHECK(tiers[1].largest_file > 0);
  const trainer::MemoryEstimate m = memory_of(model);
  CHECK(model.buffers().device_bytes() + m.workspace + m.matmul <= available.gpu_bytes);
  CHECK(trainer::host_row_bytes(model) <= 810'000'000);
  available.folders.clear();
  check_contains(message_of<ConfigError>([&] { (void)machine.decide(available); }),
                 {"solver.embedding_memory \"auto\": expected a folder on a disk for"});
  available.folders = {{"/a", disk(3)}};
  const Machine hashed(
      {"layers.emb.type=DistributedSlotSparseEmbeddingHash",
       R"(layers.emb.sparse_embedding_hparam={"embedding_vec_size":4,"combiner":0,)"
       R"("max_vocabulary_size_per_gpu":20000000,"when_full":"evict"})"},
      &emulated_cuda());
  check_contains(message_of<ConfigError>([&] { (void)hashed.decide(available); }),
                 {"solver.embedding_memory \"auto\"", "available memory on the host", "810.0 MB"});
}

TEST_CASE("auto on two GPUs: they share the memory of the host over a disk") {
  const Machine machine({gpu("[[0,1]]")}, &emulated_cuda());
  const AvailableMemory available{
      .host_bytes = 900'000'000, .gpu_bytes = 400'000'000, .folders = {{"/a", disk(3)}}};
  const RowMemoryDecision decision = machine.decide(available);
  REQUIRE(decision.tiers.memory);
  CHECK(decision.tiers.memory->disk == "/a");
  CHECK(decision.tiers.memory->gpu_gb < 0.4);
  CHECK(decision.tiers.memory->host_gb < 0.81);
  const Model model = machine.model(decision);
  const auto tiers = tiers_of(model);
  REQUIRE(tiers.size() == 2);
  CHECK(tiers[0].resident < tiers[1].resident);
  CHECK(tiers[1].resident < tiers[1].rows);
  const int64_t host = trainer::host_row_bytes(model);
  CHECK(2 * host <= 810'000'000);
  CHECK(2 * host >= 600'000'000);
}

TEST_CASE("this machine has memory, and folders for rows") {
  const Machine machine({"solver.snapshot=10", "solver.snapshot_prefix=/tmp/snapshots/x"});
  trainer::RowMemorySetup setup = machine.setup();
  setup.save = machine.run / "saved";
  const AvailableMemory available = trainer::available_memory(setup);
  CHECK(available.host_bytes > 0);
  REQUIRE(available.folders.size() >= 3);
  CHECK(available.folders[0].path == "/tmp/snapshots");
  CHECK(available.folders[1].path == machine.run.path());
  CHECK(available.folders[1].disk.usable);
  CHECK(available.folders.back().path == ".");
}

TEST_CASE("a folder that the config names is warned of") {
  const Machine machine({R"(solver.embedding_memory={"host_gb":0.5,"disk":"/dev/shm"})"});
  const RowMemoryDecision decision = machine.decide({});
  CHECK(decision.lines.empty());
  CHECK_FALSE(decision.warnings.empty());
  if (inspect_folder("/dev/shm").kind == FolderKind::kMemory)
    check_contains(decision.warnings[0], {"/dev/shm is memory (tmpfs)", "local disk"});
  const auto warned = trainer::folder_warnings("/d", disk(1), 2'000'000'000);
  REQUIRE(warned.size() == 1);
  check_contains(warned[0], {"/d has 1.0 GB free", "take up to 2.0 GB"});
  CHECK(trainer::folder_warnings("/d", disk(1), 1'000'000'000).empty());
}

}  // namespace hlite::test
