// Work that runs as late as it may shows every missing wait: what reads too early reads what was
// there before.
#include "tests/support/stream_order.h"

#include "hugectr_lite/core/fill.h"
#include "tests/support/cuda_backends.h"

namespace hlite::test {
namespace {

// A value in device memory that is 1, and that a stream of its own is about to make 2.
struct Change {
  const cuda::Backend& table = emulated_cuda();
  TestStream writer{table}, reader{table};
  DeviceArray<float> value{table, std::vector<float>{1}};
  Change() { fill(2); }
  // On the writer.
  void fill(float to) const {
    const Exec exec{.device = Device::kCuda, .cuda = &table, .stream = writer.get()};
    hlite::kernels::fill(exec, {value.data(), 1}, to);
  }
  [[nodiscard]] float read(void* stream) const {
    float got = 0;
    table.copy(&got, value.data(), sizeof(got), stream);
    table.stream_synchronize(stream);
    return got;
  }
};

class TestEvent {
 public:
  TestEvent() { emulated_cuda().event_create(&handle_); }
  ~TestEvent() { emulated_cuda().event_destroy(handle_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  [[nodiscard]] void* get() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace

TEST_CASE("without late streams work runs at once, and hides that nothing waits for it") {
  const StreamOrderScope at_once(emulation::StreamOrder::kAtOnce);
  CHECK(Change().read(nullptr) == 2);
}

TEST_CASE("on late streams a copy that waits for nothing reads what was there before") {
  const LateStreams late;
  const Change on_default, on_other;
  CHECK(on_default.read(nullptr) == 1);  // which does not wait for non-blocking streams
  CHECK(on_other.read(on_other.reader.get()) == 1);
}

TEST_CASE("on late streams whatever waits sees the work") {
  const LateStreams late;
  const Change own, synchronized, device, held, waited;
  CHECK(own.read(own.writer.get()) == 2);

  synchronized.table.stream_synchronize(synchronized.writer.get());
  CHECK(synchronized.read(nullptr) == 2);

  const TestEvent order, point;
  held.table.event_record(order.get(), held.writer.get());
  held.table.stream_wait_event(held.reader.get(), order.get());
  CHECK(held.read(held.reader.get()) == 2);

  waited.table.event_record(point.get(), waited.writer.get());
  waited.fill(3);  // after the event
  waited.table.event_synchronize(point.get());
  CHECK(waited.read(waited.reader.get()) == 2);

  device.table.device_synchronize();
  CHECK(device.read(nullptr) == 2);
}

TEST_CASE("on late streams a wait reaches through streams that waited themselves") {
  const LateStreams late;
  const Change first;
  const TestStream between(first.table);
  const TestEvent a, b;
  first.table.event_record(a.get(), first.writer.get());
  first.table.stream_wait_event(between.get(), a.get());
  first.table.event_record(b.get(), between.get());
  CHECK(first.read(first.reader.get()) == 1);
  first.table.stream_wait_event(first.reader.get(), b.get());
  CHECK(first.read(first.reader.get()) == 2);
}

TEST_CASE("on late streams copies follow the rules for pageable and page-locked memory") {
  const LateStreams late;
  const cuda::Backend& table = emulated_cuda();
  const TestStream stream(table);
  const DeviceArray<float> value(table, std::vector<float>{1});
  float pageable = 5;
  table.copy(value.data(), &pageable, sizeof(float), stream.get());
  pageable = 6;  // it has been read
  void* memory = nullptr;
  table.allocate_pinned(&memory, sizeof(float));
  auto* const pinned = static_cast<float*>(memory);
  *pinned = 7;
  table.copy(pinned, value.data(), sizeof(float), stream.get());
  CHECK(*pinned == 7);  // the host has not waited
  table.stream_synchronize(stream.get());
  CHECK(*pinned == 5);
  table.copy(value.data(), pinned, sizeof(float), stream.get());
  *pinned = 8;  // too early
  CHECK(value.to_host(stream.get()) == std::vector<float>{8});
  table.free_pinned(memory);
}

TEST_CASE("a graph on a late stream runs when the host waits for it") {
  const LateStreams late;
  const Change change;
  void* graph = nullptr;
  change.table.stream_synchronize(change.writer.get());
  change.table.capture_begin(change.writer.get());
  change.fill(4);
  change.table.capture_end(change.writer.get(), &graph);
  change.table.graph_launch(graph, change.writer.get());
  CHECK(change.read(change.reader.get()) == 2);
  CHECK(change.read(change.writer.get()) == 4);
  change.table.graph_destroy(graph);
}

}  // namespace hlite::test
