#include "data_reader/reader_plan.h"

#include <limits>

#include "tests/support/catch.h"
#include "tests/support/errors.h"

namespace hlite::data {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 50;

// Criteo's records of 160 bytes, dense features padded to 16 in memory.
config::DataConfig criteo_config() {
  config::DataConfig config;
  config.format = &config::data_format("RawAsync");
  config.label_dim = 1;
  config.dense_dim = 13;
  config.dense_aligned = true;
  config::SparseInputConfig sparse;
  sparse.slot_num = 26;
  sparse.hotness.assign(26, 1);
  config.sparse.push_back(sparse);
  return config;
}

config::DataConfig with_param(int64_t threads, int64_t each) {
  config::DataConfig config = criteo_config();
  config.async_param.emplace();
  config.async_param->num_threads = threads;
  config.async_param->num_batches_per_thread = each;
  config.async_param->io_block_size = 4096;
  config.async_param->io_depth = 2;
  config.async_param->io_alignment = 512;
  return config;
}

TEST_CASE("without async_param two threads read four batches each ahead") {
  const ReaderPlan plan = plan_reader(criteo_config(), 1000, 100, false, kPlenty);
  CHECK(plan.threads == 2);
  CHECK(plan.batches_per_thread == 4);
  CHECK(plan.shape.block == 512 << 10);
  CHECK(plan.remark.empty());
  // Slots of 43 words a row, and buffers of the file's bytes.
  CHECK(plan.bytes == 2 * (4 * 4 * 1000 * 43 + plan.buffers_per_thread *
                                                   RangeReader::buffer_bytes(plan.shape, 160000)));
  config::DataConfig config = criteo_config();
  config.num_workers = 3;
  CHECK(plan_reader(config, 1000, 100, false, kPlenty).threads == 3);
}

TEST_CASE("async_param is taken as it is where the epoch and the memory are large enough") {
  const ReaderPlan plan = plan_reader(with_param(3, 5), 64, 1000, false, kPlenty);
  CHECK(plan.threads == 3);
  CHECK(plan.batches_per_thread == 5);
  CHECK(plan.shape.block == 4096);
  CHECK(plan.shape.depth == 2);
  CHECK(plan.shape.alignment == 512);
  // Two reads of 4096 bytes fit into a batch of 10240 bytes, another is being decoded.
  CHECK(plan.buffers_per_thread == 2);
  CHECK(plan.remark.empty());
}

TEST_CASE("a short epoch, or little memory, means less, but never fewer than two batches") {
  const ReaderPlan few = plan_reader(with_param(4, 8), 64, 6, false, kPlenty);
  CHECK(few.threads == 4);
  CHECK(few.batches_per_thread == 1);
  CHECK(few.remark ==
        "reading 4 x 1 batches ahead instead of 4 x 8 (num_threads x num_batches_per_thread): the "
        "epoch has 6");
  const ReaderPlan one = plan_reader(with_param(4, 8), 64, 1, false, kPlenty);
  CHECK(one.threads * one.batches_per_thread == 2);

  for (const int64_t available : {int64_t{0}, int64_t{1} << 20, int64_t{4} << 20}) {
    const ReaderPlan plan = plan_reader(with_param(4, 8), 64, 1000, false, available);
    INFO(available << ": " << plan.threads << " x " << plan.batches_per_thread);
    CHECK(plan.threads * plan.batches_per_thread >= 2);
    CHECK((plan.bytes <= available / 8 || plan.threads * plan.batches_per_thread == 2));
    if (!plan.remark.empty())
      test::check_contains(plan.remark, {"an eighth of the available memory"});
  }
}

TEST_CASE("a resident source has a slot for every batch, whatever the memory") {
  for (const int64_t batches : {1, 2, 7, 100}) {
    const ReaderPlan plan = plan_reader(with_param(3, 2), 64, batches, true, 0);
    CHECK(plan.threads == std::min<int64_t>(3, batches));
    CHECK(plan.threads * plan.batches_per_thread >= batches);
    CHECK(plan.threads * (plan.batches_per_thread - 1) < batches);
  }
}

}  // namespace
}  // namespace hlite::data
