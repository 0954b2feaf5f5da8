#include "hugectr_lite/trainer/model/row_memory.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "hugectr_lite/comm/gather_lists.h"
#include "hugectr_lite/comm/mpi_plugin.h"
#include "hugectr_lite/comm/thread_communicator.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/live_line.h"
#include "hugectr_lite/core/memory.h"
#include "hugectr_lite/trainer/model/key_statistics.h"
#include "hugectr_lite/trainer/model/model_sizes.h"
#include "hugectr_lite/trainer/model/resources.h"
#include "hugectr_lite/trainer/model/run_memory.h"

namespace hlite::trainer {
namespace {

namespace fs = std::filesystem;

// The shares of what is free that a run plans with: the system, its page cache and what is not
// counted have the rest.
constexpr double kHostShare = 0.9, kGpuShare = 0.95;
constexpr const char* kAuto = "embedding_memory \"auto\": ";

int64_t share_of(int64_t bytes, double share) {
  return static_cast<int64_t>(static_cast<double>(bytes) * share);
}

Model model_for(const RowMemorySetup& s, const RowTiers& tiers) {
  ModelRanks ranks;
  ranks.context.rank = s.ranks.rank;
  ranks.context.topology = s.ranks.topology;
  ranks.placements = s.placements;
  ranks.tiers = tiers;
  return {s.config, 1, s.threads, std::move(ranks), s.gpu};
}

MemoryOfRun run_of(const RowMemorySetup& s, const Model& model) {
  if (s.without_data) return {.config = s.config, .model = model, .threads = s.threads};
  return memory_of_run(s.config, model, s.threads);
}

// The least of all processes' numbers, number by number. Collective if there are other processes.
void take_least(const RowMemorySetup& s, std::span<int64_t> own) {
  if (s.process.empty() || s.ranks.ranks() == 1) return;
  std::vector<int64_t> all;
  comm::run_ranks(s.process, [&](comm::Communicator& world) {
    const comm::RankContext rank{
        .rank = world.rank(), .topology = s.ranks.topology, .world = &world};
    auto found =
        comm::gather_lists(rank, std::vector<int64_t>(own.begin(), own.end()), comm::kEveryRank);
    if (world.rank() == s.ranks.rank) all = std::move(found);
  });
  for (size_t i = 0; i < all.size(); ++i)
    own[i % own.size()] = std::min(own[i % own.size()], all[i]);
}

std::vector<std::string> folder_paths(const RowMemorySetup& s) {
  std::vector<std::string> paths;
  const auto add = [&](const fs::path& folder) {
    const std::string path = folder.empty() ? "." : folder.string();
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  };
  const auto parent = [](std::string place) {
    while (place.size() > 1 && place.ends_with('/')) place.pop_back();
    return fs::path(place).parent_path();
  };
  const config::SolverConfig& solver = s.config.solver;
  if (solver.snapshot > 0 && !solver.snapshot_prefix.empty())
    add(parent(s.config.resolve(solver.snapshot_prefix, PathUse::kOutput)));
  if (!s.save.empty()) add(parent(s.save));
  if (const char* const temporary = std::getenv("TMPDIR"); temporary && *temporary)
    add(temporary);
  else
    add("/tmp");
  add(".");
  return paths;
}

// The first local folder with enough space; else the local one with the most; else another one, but
// not one that is memory.
const ScratchFolder* choose_folder(const std::vector<ScratchFolder>& folders, int64_t bytes) {
  const ScratchFolder* best = nullptr;
  const auto rank = [&](const ScratchFolder& f) {
    return std::pair(f.disk.kind == FolderKind::kLocal, std::min(f.disk.free_bytes, bytes));
  };
  for (const ScratchFolder& f : folders)
    if (f.disk.usable && f.disk.kind != FolderKind::kMemory && (!best || rank(f) > rank(*best)))
      best = &f;
  return best;
}

void require_local_updates(const Model& model) {
  for (const auto& e : model.layers().embeddings) e->require_local_updates();
}

int64_t largest_files(const RowMemorySetup& s, const Model& model) {
  int64_t bytes = 0;
  for (const LayerTiers& tiers : tiers_of(model)) bytes += tiers.largest_file;
  return bytes * ranks_here(s.config.solver);
}

// Gives the host `for_rows` bytes for rows and puts the others on a disk. Sets the folder and what
// is to be warned of. Returns the folder's free bytes.
int64_t add_disk(const RowMemorySetup& s, const AvailableMemory& available, int64_t for_rows,
                 RowMemoryDecision& decision) {
  config::EmbeddingMemoryConfig& memory = *decision.tiers.memory;
  memory.host_gb = static_cast<double>(for_rows) * 1e-9 / comm::processes_here();  // of each
  memory.disk = ".";
  const int64_t files = largest_files(s, model_for(s, decision.tiers));
  const ScratchFolder* const folder = choose_folder(available.folders, files);
  if (!folder) {
    std::vector<std::string> looked_at;
    for (const ScratchFolder& f : available.folders) looked_at.push_back(f.path);
    raise<ConfigError>(
        "solver.embedding_memory \"auto\": expected a folder on a disk for {} of rows, found none "
        "among {}; name one as solver.embedding_memory.disk",
        bytes_text(files), fmt::join(looked_at, ", "));
  }
  memory.disk = fs::absolute(folder->path).lexically_normal().string();
  decision.warnings = folder_warnings(folder->path, folder->disk, files);
  return folder->disk.free_bytes;
}

RowMemoryDecision decide_on_cpu(const RowMemorySetup& s, const AvailableMemory& available,
                                const Model& whole, RowMemoryDecision decision) {
  const int64_t usable = share_of(available.host_bytes, kHostShare), rows = row_bytes_here(whole),
                rest = host_bytes_here(run_of(s, whole)) - rows;
  if (rest + rows <= usable) {
    decision.lines.push_back(fmt::format("{}all rows are in memory: {} needed, {} available", kAuto,
                                         bytes_text(rest + rows),
                                         bytes_text(available.host_bytes)));
    return decision;
  }
  require_local_updates(whole);
  const int64_t for_rows = std::max<int64_t>(0, usable - rest);
  config::EmbeddingMemoryConfig& memory = decision.tiers.memory.emplace();
  memory.automatic = true;
  const int64_t free = add_disk(s, available, for_rows, decision);
  decision.lines.push_back(fmt::format(
      "{}rows and their optimizer states take {}, the rest of the run {}, and {} are available: "
      "{} hold rows (host_gb {:.3f}), and the others are on the disk {} ({} free)",
      kAuto, bytes_text(rows), bytes_text(rest), bytes_text(available.host_bytes),
      bytes_text(for_rows), memory.host_gb, memory.disk, bytes_text(free)));
  return decision;
}

// Hosts of GPUs can have a disk for the rows of tables that are not trained by key.
bool may_use_disk(const Model& model) {
  const auto& embeddings = model.layers().embeddings;
  return std::none_of(embeddings.begin(), embeddings.end(),
                      [](const auto& e) { return e->trains_by_key(); });
}

RowMemoryDecision decide_on_gpu(const RowMemorySetup& s, const AvailableMemory& available,
                                const Model& whole, RowMemoryDecision decision) {
  if (s.gpu == &absent_gpu()) {
    decision.lines.push_back(
        fmt::format("{}decided where the run starts; there is no GPU here", kAuto));
    return decision;
  }
  const MemoryEstimate m = memory_of(whole);
  const int64_t needed = whole.buffers().device_bytes() + m.workspace + m.matmul,
                usable = share_of(available.gpu_bytes, kGpuShare),
                own = row_bytes_of(whole, s.ranks.rank), rows = row_bytes_here(whole),
                host = share_of(available.host_bytes, kHostShare);
  if (needed <= usable) {
    decision.lines.push_back(
        fmt::format("{}all rows are in the memory of the GPU: {} needed, {} "
                    "free",
                    kAuto, bytes_text(needed), bytes_text(available.gpu_bytes)));
    return decision;
  }
  require_local_updates(whole);
  const int64_t outside = ranks_here(s.config.solver) * bytes_outside_model(run_of(s, whole)),
                host_needed = rows + outside;
  const bool disk = host_needed > host && may_use_disk(whole);
  if (host_needed > host && !disk)
    raise<ConfigError>(
        "solver.embedding_memory \"auto\": expected {} of available memory on the host, where all "
        "rows of a GPU's tables lie, found {}",
        bytes_text(host_needed), bytes_text(host));
  const int64_t for_rows = std::max<int64_t>(0, usable - (needed - own));
  config::EmbeddingMemoryConfig& memory = decision.tiers.memory.emplace();
  memory.automatic = true;
  memory.gpu_gb = static_cast<double>(for_rows) * 1e-9;
  if (disk) {
    const int64_t in_host = std::max<int64_t>(0, host - outside),
                  free = add_disk(s, available, in_host, decision);
    decision.lines.push_back(fmt::format(
        "{}{} are needed on a GPU, and {} are free: {} hold rows (gpu_gb {:.3f}), {} of {} "
        "available on the host hold rows in page-locked memory (host_gb {:.3f}), and the others "
        "are on the disk {} ({} free)",
        kAuto, bytes_text(needed), bytes_text(available.gpu_bytes), bytes_text(for_rows),
        memory.gpu_gb, bytes_text(in_host), bytes_text(available.host_bytes), memory.host_gb,
        memory.disk, bytes_text(free)));
    return decision;
  }
  static_cast<void>(model_for(s, decision.tiers));  // throws if that is too little
  decision.lines.push_back(
      fmt::format("{}{} are needed on a GPU, and {} are free: {} hold rows (gpu_gb {:.3f}), and "
                  "all rows are in page-locked memory of the host ({} of {} available)",
                  kAuto, bytes_text(needed), bytes_text(available.gpu_bytes), bytes_text(for_rows),
                  memory.gpu_gb, bytes_text(rows), bytes_text(available.host_bytes)));
  return decision;
}

}  // namespace

AvailableMemory available_memory(const RowMemorySetup& s) {
  AvailableMemory available;
  available.host_bytes = available_memory_bytes();
  if (s.gpu && s.gpu != &absent_gpu()) {
    int64_t total = 0;
    s.gpu->memory_info(&available.gpu_bytes, &total);
  }
  for (const std::string& path : folder_paths(s))
    available.folders.push_back({path, inspect_folder(path)});
  std::vector<int64_t> least = {available.host_bytes, available.gpu_bytes};
  for (const ScratchFolder& f : available.folders)
    least.insert(least.end(),
                 {f.disk.free_bytes, f.disk.usable ? 1 : 0, -static_cast<int64_t>(f.disk.kind)});
  take_least(s, least);
  available.host_bytes = least[0];
  available.gpu_bytes = least[1];
  for (size_t f = 0; f < available.folders.size(); ++f) {
    DiskFolder& disk = available.folders[f].disk;
    disk.free_bytes = least[2 + 3 * f];
    disk.usable = least[3 + 3 * f] == 1;
    disk.kind = static_cast<FolderKind>(-least[4 + 3 * f]);
  }
  return available;
}

std::vector<std::string> folder_warnings(const std::string& path, const DiskFolder& folder,
                                         int64_t bytes) {
  std::vector<std::string> warnings;
  if (!folder.usable) return warnings;  // the run says why
  if (folder.kind == FolderKind::kNetwork)
    warnings.push_back(fmt::format(
        "solver.embedding_memory: {} is on a file system of a network ({}): every row that is not "
        "in memory waits for it; a folder of a local disk is faster",
        path, folder.file_system.empty() ? "on another node" : folder.file_system));
  if (folder.kind == FolderKind::kMemory)
    warnings.push_back(
        fmt::format("solver.embedding_memory: {} is memory ({}), which rows on a disk are to "
                    "spare; a folder of a local disk is meant",
                    path, folder.file_system.empty() ? "on another node" : folder.file_system));
  if (bytes > folder.free_bytes)
    warnings.push_back(fmt::format(
        "solver.embedding_memory: {} has {} free, and rows that are not in memory take up to {}: "
        "training fails if so many are trained",
        path, bytes_text(folder.free_bytes), bytes_text(bytes)));
  return warnings;
}

RowMemoryDecision decide_row_memory(const RowMemorySetup& s, const AvailableMemory& available) {
  const auto& wanted = s.config.solver.embedding_memory;
  RowMemoryDecision decision;
  if (!wanted) return decision;
  if (!s.without_data) decision.tiers.keys = expected_keys(s.config);
  if (!wanted->automatic) {
    if (wanted->disk.empty()) return decision;
    const Model model = model_for(s, decision.tiers);
    const std::string folder = s.config.resolve(wanted->disk);
    decision.warnings = folder_warnings(folder, inspect_folder(folder), largest_files(s, model));
    return decision;
  }
  const Model whole = model_for(s, {});
  return s.gpu ? decide_on_gpu(s, available, whole, std::move(decision))
               : decide_on_cpu(s, available, whole, std::move(decision));
}

RowMemoryDecision decide_row_memory(const RowMemorySetup& s) {
  const auto& wanted = s.config.solver.embedding_memory;
  return decide_row_memory(s,
                           wanted && wanted->automatic ? available_memory(s) : AvailableMemory{});
}

RowMemoryDecision require_memory(const RowMemorySetup& s) {
  RowMemoryDecision decision = decide_row_memory(s);
  // Before any process has taken memory of a machine that they share.
  int64_t available[] = {available_memory_bytes()};
  take_least(s, available);
  const Model model = model_for(s, decision.tiers);
  if (const std::string lack = host_shortage(run_of(s, model), available[0]); !lack.empty())
    throw ConfigError(lack);
  return decision;
}

}  // namespace hlite::trainer
