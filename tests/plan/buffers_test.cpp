#include "hugectr_lite/plan/buffers.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/errors.h"

using namespace hlite;
using namespace hlite::plan;
using test::check_contains;
using test::message_of;

TEST_CASE("buffers know their name, kind and size") {
  Buffers buffers;
  const BufferId x = buffers.add("x", BufferKind::kActivation, 100);
  const BufferId w = buffers.add("w", BufferKind::kParameter, 40);
  const BufferId part = buffers.slice("w.part", w, 8, 16);
  CHECK(buffers.name(x) == "x");
  CHECK(buffers.kind(x) == BufferKind::kActivation);
  CHECK(buffers.bytes(w) == 40);
  CHECK(buffers.kind(part) == BufferKind::kParameter);
  CHECK(buffers.bytes(part) == 16);
}

TEST_CASE("totals count roots once, slices not") {
  Buffers buffers;
  CHECK(buffers.total_bytes(BufferKind::kGradient) == 0);
  const BufferId g = buffers.add("g", BufferKind::kGradient, 100);
  buffers.slice("g.0", g, 0, 60);
  buffers.slice("g.1", g, 60, 40);
  buffers.add("h", BufferKind::kGradient, 11);
  buffers.add("t", BufferKind::kTable, int64_t{1} << 40);
  CHECK(buffers.total_bytes(BufferKind::kGradient) == 111);
  CHECK(buffers.total_bytes(BufferKind::kTable) == int64_t{1} << 40);
}

TEST_CASE("buffers overlap where their ranges of one root do") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kGradient, 100);
  const BufferId b = buffers.add("b", BufferKind::kGradient, 100);
  const BufferId head = buffers.slice("head", a, 0, 40);
  const BufferId tail = buffers.slice("tail", a, 40, 60);
  const BufferId middle = buffers.slice("middle", a, 39, 2);
  const BufferId nested = buffers.slice("nested", tail, 10, 10);  // [50, 60) of a
  const BufferId same = buffers.slice("same", a, 50, 10);
  const auto both = [&](BufferId x, BufferId y) {
    CHECK(buffers.overlap(x, y) == buffers.overlap(y, x));
    return buffers.overlap(x, y);
  };
  CHECK(both(a, a));
  CHECK_FALSE(both(a, b));
  CHECK_FALSE(both(head, tail));
  CHECK(both(head, a));
  CHECK(both(head, middle));
  CHECK(both(tail, middle));
  CHECK(both(nested, same));
  CHECK(both(nested, tail));
  CHECK_FALSE(both(nested, head));
  CHECK_FALSE(both(nested, b));
}

TEST_CASE("an empty buffer overlaps nothing") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kGradient, 10);
  const BufferId none = buffers.slice("none", a, 0, 0);
  CHECK_FALSE(buffers.overlap(a, none));
}

TEST_CASE("memory is zeroed, and a slice lies in its root") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kState, 64);
  const BufferId part = buffers.slice("part", a, 16, 32);
  const BufferId inner = buffers.slice("inner", part, 8, 8);
  check_contains(message_of<Error>([&] { (void)buffers.data<float>(a); }), {"a", "allocate"});
  CHECK_FALSE(buffers.allocated());
  buffers.allocate();
  CHECK(buffers.allocated());
  for (int i = 0; i < 16; ++i) CHECK(buffers.data<float>(a)[i] == 0);
  CHECK(buffers.data<char>(part) == buffers.data<char>(a) + 16);
  CHECK(buffers.data<char>(inner) == buffers.data<char>(a) + 24);
  buffers.data<float>(inner)[0] = 5;
  CHECK(buffers.data<float>(a)[6] == 5);
}

TEST_CASE("parts of buffers are read and written, and nothing beyond them") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kState, 5 * sizeof(float)),
                 step = buffers.add("step", BufferKind::kState, sizeof(int64_t)),
                 none = buffers.add("none", BufferKind::kState, 0);
  buffers.allocate();
  buffers.write<float>(a, 2, std::vector<float>{7, 8});
  std::vector<float> got(5);
  buffers.read(a, 0, std::span(got));
  CHECK(got == std::vector<float>{0, 0, 7, 8, 0});
  buffers.read(a, 3, std::span(got).first(2));
  CHECK(got == std::vector<float>{8, 0, 7, 8, 0});
  buffers.set_value(step, int64_t{41});
  CHECK(buffers.value<int64_t>(step) == 41);
  buffers.read(none, 0, std::span<float>());
  check_contains(message_of<Error>([&] { buffers.read(a, 1, std::span(got)); }),
                 {"elements [1, 6)", "a with 20 bytes"});
  check_contains(message_of<Error>([&] { buffers.write<float>(a, -1, got); }), {"[-1, 4)"});
  check_contains(message_of<Error>([&] { (void)buffers.value<float>(none); }), {"none"});
}

TEST_CASE("wrong buffers are errors that name them") {
  Buffers buffers;
  const BufferId a = buffers.add("a", BufferKind::kInput, 10);
  check_contains(message_of<ConfigError>([&] { buffers.add("a", BufferKind::kInput, 1); }),
                 {"two buffers named \"a\""});
  check_contains(message_of<Error>([&] { buffers.add("minus", BufferKind::kInput, -1); }),
                 {"minus", "-1 bytes"});
  check_contains(message_of<Error>([&] { buffers.slice("s", a, 4, 7); }), {"s [4, 11)", "a", "10"});
  check_contains(message_of<Error>([&] { buffers.slice("s", a, -1, 2); }), {"s [-1, 1)"});
  check_contains(message_of<Error>([&] { (void)buffers.name(7); }), {"buffer id 7"});
  check_contains(message_of<Error>([&] { (void)buffers.bytes(kNoBuffer); }), {"buffer id -1"});
  buffers.allocate();
  check_contains(message_of<Error>([&] { buffers.add("late", BufferKind::kInput, 1); }), {"late"});
}

TEST_CASE("a copy from or to a buffer first calls the given wait") {
  Buffers buffers;
  const BufferId id = buffers.add("x", BufferKind::kState, 4 * sizeof(float));
  buffers.allocate();
  int waits = 0;
  buffers.set_wait([&] { ++waits; });
  buffers.set_value<float>(id, 3);
  CHECK(waits == 1);
  CHECK(buffers.value<float>(id) == 3);
  CHECK(waits == 2);
  buffers.set_wait([] { raise<DeviceError>("it lasts too long"); });
  CHECK_THROWS_AS(buffers.set_value<float>(id, 4), DeviceError);
  buffers.set_wait({});
  CHECK(buffers.value<float>(id) == 3);
}

TEST_CASE("a buffer that does not fit is named") {
  Buffers buffers;
  buffers.add("small", BufferKind::kInput, 10);
  buffers.add("huge table", BufferKind::kTable, int64_t{1} << 60);
  check_contains(message_of<DataError>([&] { buffers.allocate(); }), {"huge table"});
}
