// Processes that are killed, or run out of disk space, while they save.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

using namespace hlite;
using namespace hlite::checkpoint;
using test::TemporaryDirectory;

namespace {
// Tensors in which every element is the iteration's number.
struct Model {
  std::vector<float> table = std::vector<float>(4000), bias = std::vector<float>(3),
                     momentum = std::vector<float>(500);
  std::vector<TensorRef> weights{{"table", {1000, 4}, table.data()}, {"bias", {3}, bias.data()}};
  std::vector<TensorRef> states{{"momentum", {500}, momentum.data()}};

  void set(int64_t iteration) {
    for (auto* v : {&table, &bias, &momentum})
      std::fill(v->begin(), v->end(), static_cast<float>(iteration));
  }
  [[nodiscard]] bool all_are(int64_t iteration) const {
    const auto is = [&](const std::vector<float>& v) {
      return std::all_of(v.begin(), v.end(),
                         [&](float x) { return x == static_cast<float>(iteration); });
    };
    return is(table) && is(bias) && is(momentum);
  }
  void save(const std::string& dir, int64_t iteration) {
    set(iteration);
    CheckpointMeta meta;
    meta.iteration = iteration;
    save_checkpoint(dir, meta, weights, states);
  }
  // The iteration of a checkpoint that is consistent, else -1.
  int64_t load(const std::string& dir) {
    const CheckpointMeta meta = read_manifest(dir);
    load_checkpoint(dir, meta, weights, states);
    return all_are(meta.iteration) ? meta.iteration : -1;
  }
};

// Runs `body` in a child process; gives the child's id.
template <typename Body>
pid_t in_child(Body&& body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 9;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  return child;
}
}  // namespace

namespace {
// `rounds` children that save one checkpoint after the other are killed after 0.1 ms or more, the
// last when it has saved.
void kill_and_load(const std::filesystem::path& where, uint64_t rounds) {
  const TemporaryDirectory dir(where);
  const std::string place = dir / "c";
  Model model;
  model.save(place, 0);
  const auto start = std::chrono::steady_clock::now();
  model.save(place, 1);
  const double save_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const double max_ms = std::clamp(2 * save_ms, 20.0, 200.0);

  const int64_t first = 1;
  int64_t newest = first;
  for (uint64_t round = 0; round < rounds; ++round) {
    int channel[2];
    REQUIRE(pipe(channel) == 0);
    const pid_t child = in_child([&] {
      Model mine;
      for (int64_t i = newest + 1;; ++i) {
        mine.save(place, i);
        if (write(channel[1], &i, sizeof(i)) != sizeof(i)) return 8;
      }
    });
    close(channel[1]);
    int64_t reported = newest;
    if (round + 1 == rounds) {
      REQUIRE(read(channel[0], &reported, sizeof(reported)) == sizeof(reported));
    } else {  // as many short waits as long ones
      const double exponent = random::uniform(random::word(11, 0, round));
      std::this_thread::sleep_for(
          std::chrono::duration<double, std::milli>(0.1 * std::pow(max_ms / 0.1, exponent)));
    }
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // it never failed by itself
    for (int64_t i; read(channel[0], &i, sizeof(i)) == sizeof(i);) reported = i;
    close(channel[0]);

    const int64_t loaded = model.load(place);
    INFO("round " << round << ", reported " << reported);
    REQUIRE(loaded >= reported);
    newest = loaded;
  }
  CHECK(newest > first);  // the children did save
  // What the killed ones left is gone after the next save.
  model.save(place, newest + 1);
  CHECK(model.load(place) == newest + 1);
  CHECK(dir.entries() == 1);
}
}  // namespace

TEST_CASE("a kill at any moment leaves a whole checkpoint, no older than the last one reported") {
  kill_and_load(std::filesystem::temp_directory_path(), 15);
  // Without a disk to wait for, kills hit every part of a save alike.
  if (access("/dev/shm", W_OK) == 0) kill_and_load("/dev/shm", 50);
}

TEST_CASE("a full file system leaves the older checkpoint and says so") {
  const TemporaryDirectory dir;
  const std::string place = dir / "c";
  Model model;
  model.save(place, 1);
  const rlim_t weights_bytes = std::filesystem::file_size(place + "/weights.safetensors");
  for (const rlim_t most : {rlim_t{0}, rlim_t{1}, rlim_t{100}, rlim_t{5000}, weights_bytes - 1}) {
    const pid_t child = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{most, most};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 7;
      try {
        model.save(place, 2);
      } catch (const DataError& error) {
        const std::string message = error.what();
        const bool good =
            message.find("cannot write ") != std::string::npos &&
            message.find(" bytes at offset ") != std::string::npos &&
            message.find("; the checkpoint " + place + " is untouched") != std::string::npos;
        return good ? 0 : 2;
      }
      return 1;
    });
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    INFO("files of at most " << most << " bytes");
    CHECK(status == 0);
    CHECK(model.load(place) == 1);
    CHECK(dir.entries() == 1);
  }
}
