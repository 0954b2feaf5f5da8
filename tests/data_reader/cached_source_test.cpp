#include "data_reader/cached_source.h"

#include <filesystem>
#include <limits>

#include "data_reader/open_source.h"
#include "hugectr_lite/core/error.h"
#include "tests/data_reader/log_capture.h"
#include "tests/data_reader/raw_batch.h"
#include "tests/data_reader/raw_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::data;
using test::async_param;
using test::is_right;
using test::LogCapture;
using test::RawFixture;

namespace {
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

std::unique_ptr<BatchSource> open_eval(const RawFixture& f, int64_t batch, int64_t most,
                                       int64_t batchsize_eval) {
  return open_evaluation_source(f.data, f.path, batch, f.shape.slot_rows, most, batchsize_eval);
}

// One evaluation: every sample once, in order.
void check_pass(const RawFixture& f, BatchSource& source) {
  int64_t sample = 0;
  for (int64_t b = 0; b < source.batches_per_epoch(); ++b) {
    const HostBatch& batch = source.next();
    CHECK(batch.first_sample == sample);
    CHECK(is_right(f.shape, batch));
    sample += batch.size;
  }
  CHECK(sample == source.samples());
}
}  // namespace

TEST_CASE("an evaluation set that fits is read once, and then the file may go", "[threads]") {
  for (const int64_t batch : {1, 7, 64, 301, 1000}) {
    RawFixture f(301);
    f.data.async_param = async_param(2, 2, 512, 4, 512);
    f.data.cache_eval_data = 4;
    const auto source = open_eval(f, batch, kAll, 76);
    CHECK(source->samples() == 301);
    CHECK(source->batch_size() == batch);
    CHECK(source->position() == 0);
    check_pass(f, *source);
    std::filesystem::remove(f.path);
    const int64_t bytes = source->bytes_read();
    CHECK(bytes >= 301 * 28);
    for (int pass = 0; pass < 3; ++pass) check_pass(f, *source);
    CHECK(source->bytes_read() == bytes);
    CHECK(source->position() == 4 * source->batches_per_epoch());
    CHECK(source->wait_seconds() >= 0);
  }
}

TEST_CASE("the same batches come from the same memory in every pass", "[threads]") {
  RawFixture f(100);
  f.data.cache_eval_data = 10;
  const auto source = open_eval(f, 30, kAll, 10);
  std::vector<const std::byte*> first;
  for (int b = 0; b < 4; ++b) first.push_back(source->next().memory.data());
  for (int pass = 0; pass < 2; ++pass)
    for (const std::byte* p : first) CHECK(source->next().memory.data() == p);
  CHECK(source->memory().size() >= 4);
}

TEST_CASE("an evaluation set that does not fit is streamed, and a line says so", "[threads]") {
  RawFixture f(301);
  for (const int64_t cached : {0, 1, 3}) {
    const LogCapture log;
    f.data.cache_eval_data = cached;
    const auto source = open_eval(f, 64, kAll, 100);
    for (int pass = 0; pass < 3; ++pass) check_pass(f, *source);
    CHECK(source->bytes_read() >= 3 * 301 * 28);
    CHECK(log.count(f.path +
                    ": 301 samples are read again at each evaluation: cache_eval_data "
                    "keeps " +
                    std::to_string(cached) + " batches of 100") == (cached > 0));
  }
}

TEST_CASE("only the samples that are evaluated count", "[threads]") {
  RawFixture f(301);
  f.data.cache_eval_data = 2;
  const auto source = open_eval(f, 64, 200, 100);
  CHECK(source->samples() == 200);
  check_pass(f, *source);
  std::filesystem::remove(f.path);
  check_pass(f, *source);
}

TEST_CASE("an error in the first pass stays one", "[threads]") {
  RawFixture f(100);
  f.words[static_cast<size_t>(57 * f.shape.values() + 6)] = 70;
  f.write();
  f.data.cache_eval_data = 10;
  const auto source = open_eval(f, 10, kAll, 10);
  for (int b = 0; b < 5; ++b) CHECK(is_right(f.shape, source->next()));
  for (int again = 0; again < 3; ++again)
    test::check_contains(test::message_of<DataError>([&] { source->next(); }), {"sample 57"});
  CHECK(source->position() == 5);
}

TEST_CASE("replaced keys are counted in every pass", "[threads]") {
  RawFixture f(100);
  f.words[static_cast<size_t>(57 * f.shape.values() + 6)] = 70;
  f.write();
  f.data.key_policy.kind = config::KeyPolicy::kClamp;
  for (const int64_t cached : {0, 10}) {
    f.data.cache_eval_data = cached;
    const auto source = open_eval(f, 10, kAll, 10);
    for (int b = 0; b < 25; ++b) source->next();
    CHECK(source->replaced_keys() == 2);
  }
}
