#include "hugectr_lite/checkpoint/delta.h"

#include <cstring>
#include <filesystem>
#include <map>

#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/checkpoint/delta_chain.h"
#include "hugectr_lite/core/random.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_directory.h"

namespace hlite::checkpoint {
namespace {

// A model of two tables, one of them with keys, and a dense tensor.
struct DeltaModel {
  static constexpr int64_t kWidth = 3;
  std::vector<float> dense = {1, 2, 3, 4};
  std::vector<float> full;                        // rows of the table without keys
  std::map<uint32_t, std::vector<float>> by_key;  // of the other
  std::vector<uint32_t> keys = {};                // as tensors() had them
  std::vector<float> values = {};

  explicit DeltaModel(int64_t rows) : full(static_cast<size_t>(rows * kWidth)) {
    for (size_t i = 0; i < full.size(); ++i) full[i] = static_cast<float>(i);
    for (uint32_t k = 0; k < 200; k += 3) by_key[k] = {static_cast<float>(k), 1, -0.0f};
  }

  // Changes, adds and drops some rows, as a day of training does.
  void train(uint64_t day) {
    for (float& x : dense) x += 0.5f;
    full.insert(full.end(), {1, 2, 3});
    for (uint64_t i = 0; i < 4; ++i) full[random::word(day, 1, i) % full.size()] += 1;
    for (uint32_t k = 0; k < 200; ++k) {
      const uint32_t draw = random::word(day, 2, k) % 10;
      if (draw == 0) by_key.erase(k);
      if (draw == 1) by_key[k] = {static_cast<float>(day), static_cast<float>(k), 7};
    }
  }

  std::vector<TensorRef> tensors() {
    keys.clear();
    values.clear();
    for (const auto& [key, row] : by_key) {
      keys.push_back(key);
      values.insert(values.end(), row.begin(), row.end());
    }
    TensorRef words{.name = "emb.table_0.keys", .shape = {std::ssize(keys)}, .dtype = DType::kU32};
    words.get = [this](int64_t first, std::span<float> out) {
      if (!out.empty()) std::memcpy(out.data(), keys.data() + first, out.size_bytes());
    };
    TensorRef narrow{.name = "late.table_0", .shape = {2, 2}, .dtype = DType::kBf16};
    narrow.get = [this](int64_t first, std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = dense[0] * 2 + static_cast<float>(first) + static_cast<float>(i);
    };
    return {{.name = "fc.weight", .shape = {2, 2}, .data = dense.data()},
            {.name = "emb.table_0", .shape = {std::ssize(keys), kWidth}, .data = values.data()},
            words,
            narrow,
            {.name = "big.table_10",
             .shape = {std::ssize(full) / kWidth, kWidth},
             .data = full.data()}};
  }
};

// Days of a model: full saves, and the deltas between them.
class DeltaDays {
 public:
  explicit DeltaDays(int days) {
    DeltaModel model(50);
    save(model, 0);
    for (int day = 1; day <= days; ++day) {
      model.train(static_cast<uint64_t>(day));
      save(model, day);
      const ReadFile base(full(day - 1));
      sizes.push_back(write_delta(chain(), day * 10, base, sum_of_file(base), model.tensors()));
    }
  }
  [[nodiscard]] std::string chain() const { return directory_ / "chain"; }
  [[nodiscard]] std::string full(int day) const {
    return directory_ / ("full_" + std::to_string(day) + ".safetensors");
  }
  [[nodiscard]] std::string link(int day) const {
    return fmt::format("{}/{:010}", chain(), day * 10);
  }
  [[nodiscard]] std::string joined() const { return directory_ / "joined.safetensors"; }
  [[nodiscard]] std::string join(int from) const {
    const ReadFile base(full(from));
    DeltaChain(chain()).join(base, joined());
    return test::read_text(joined());
  }
  std::vector<DeltaSize> sizes;

 private:
  void save(DeltaModel& model, int day) const { save_weights(full(day), model.tensors()); }
  test::TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a full save and the deltas after it are the last full save, byte for byte") {
  const DeltaDays days(9);
  for (int from = 0; from <= 9; ++from) CHECK(days.join(from) == test::read_text(days.full(9)));
  CHECK_NOTHROW(DeltaChain(days.chain()).verify());
  for (const DeltaSize& size : days.sizes) {
    CHECK(size.rows > 4);
    CHECK(size.rows < 60);
    CHECK(size.gone > 0);
  }
  // A full save in the middle makes the links before it needless.
  const DeltaChain chain(days.chain());
  const ReadFile third(days.full(3));
  CHECK(chain.prune(sum_of_file(third), third.name()) == 3);
  CHECK(DeltaChain(days.chain()).links().size() == 6);
  CHECK(days.join(3) == test::read_text(days.full(9)));
  test::check_contains(test::message_of<DataError>([&] { (void)days.join(2); }),
                       {"full_2.safetensors", "expected a chain with a delta from"});
}

TEST_CASE("a delta names the keys that left, first and last ones too, and those that came again") {
  using Keys = std::vector<uint32_t>;
  const test::TemporaryDirectory folder;
  DeltaModel model(3);
  const std::string first = folder / "0.safetensors";
  std::string base = first;
  const auto hold = [&](const Keys& keys) {
    model.by_key.clear();
    for (const uint32_t key : keys) model.by_key[key] = {static_cast<float>(key), 1, 2};
  };
  hold({1, 3, 5, 9});
  save_weights(base, model.tensors());
  struct Step {
    Keys keys, gone, rows;
  };
  const std::vector<Step> steps = {
      {{3, 5}, {1, 9}, {}}, {{0, 3, 7, 9}, {5}, {0, 7, 9}}, {{}, {0, 3, 7, 9}, {}}, {{3}, {}, {3}}};
  for (int64_t i = 1; i <= std::ssize(steps); ++i) {
    INFO("step " << i);
    const Step& step = steps[static_cast<size_t>(i) - 1];
    hold(step.keys);
    const ReadFile before(base);
    const DeltaSize size =
        write_delta(folder / "chain", i, before, sum_of_file(before), model.tensors());
    CHECK(size.gone == std::ssize(step.gone));
    const ReadFile file(delta_file(delta_link(folder / "chain", i)));
    const SafetensorsReader delta(file);
    CHECK(delta.read_words("emb.table_0.gone") == step.gone);
    CHECK(delta.read_words("emb.table_0.rows") == step.rows);
    base = folder / (std::to_string(i) + ".safetensors");
    save_weights(base, model.tensors());
    DeltaChain(folder / "chain").join(ReadFile(first), folder / "joined");
    CHECK(test::read_text(folder / "joined") == test::read_text(base));
  }
}

TEST_CASE("a damaged, missing or swapped link is refused by its name") {
  const DeltaDays days(4);
  const auto refused = [&] {
    return test::message_of<DataError>([&] {
      const DeltaChain chain(days.chain());
      chain.verify();
      const ReadFile base(days.full(0));
      chain.join(base, days.joined());
    });
  };
  for (const char* file : {"delta.safetensors", "manifest.json"}) {
    const std::string path = days.link(2) + "/" + file, good = test::read_text(path);
    for (uint64_t i = 0; i < 200; ++i) {
      std::string bad = good;
      const size_t at = random::word(3, 1, i) % bad.size();
      bad[at] = static_cast<char>(bad[at] ^ (1 << random::word(3, 2, i) % 8));
      // Blanks that lay out a manifest mean nothing.
      if (std::isspace(static_cast<unsigned char>(good[at])) != 0 && path.ends_with(".json"))
        continue;
      test::write_text(path, bad);
      INFO(path << " at " << at);
      test::check_contains(refused(), {days.link(2)});
    }
    test::write_text(path, good.substr(0, good.size() / 2));
    test::check_contains(refused(), {days.link(2)});
    test::write_text(path, good);
  }
  CHECK(days.join(0) == test::read_text(days.full(4)));

  namespace fs = std::filesystem;
  fs::rename(days.link(2), days.chain() + "/away");
  test::check_contains(refused(), {days.link(3), "a link is missing"});
  fs::rename(days.link(3), days.link(2));
  test::check_contains(refused(),
                       {days.link(2), "expected the delta of the iteration in its name"});
  fs::rename(days.link(2), days.link(3));
  fs::rename(days.chain() + "/away", days.link(2));
  // The values of one link under the manifest of another.
  fs::copy_file(days.link(3) + "/delta.safetensors", days.link(2) + "/delta.safetensors",
                fs::copy_options::overwrite_existing);
  test::check_contains(refused(), {days.link(2), "manifest.json"});
}

TEST_CASE("a link that a killed run has written is taken when the run is repeated") {
  const DeltaDays days(2);
  const auto repeated = [&](const DeltaModel& model) {
    DeltaModel again = model;
    const ReadFile base(days.full(1));
    return write_delta(days.chain(), 20, base, sum_of_file(base), again.tensors());
  };
  DeltaModel model(50);
  model.train(1);
  const DeltaModel first = model;
  model.train(2);
  const std::string before = test::read_text(days.link(2) + "/manifest.json");
  CHECK(repeated(model).was_there);
  CHECK_FALSE(days.sizes.back().was_there);
  CHECK(test::read_text(days.link(2) + "/manifest.json") == before);
  test::check_contains(test::message_of<DataError>([&] { repeated(first); }),
                       {"ends before iteration 20"});
  // Before training: the run may be repeated, or go on, or is of another chain.
  const DeltaChain chain(days.chain());
  const auto fits = [&](int day) {
    const ReadFile base(days.full(day));
    check_next_link(chain, base.name(), sum_of_file(base));
  };
  CHECK_NOTHROW(fits(1));
  CHECK_NOTHROW(fits(2));
  test::check_contains(test::message_of<DataError>([&] { fits(0); }),
                       {"expected a chain that ends in", "full_0"});
  std::string damaged = test::read_text(days.link(2) + "/delta.safetensors");
  damaged.back() ^= 1;
  test::write_text(days.link(2) + "/delta.safetensors", damaged);
  test::check_contains(test::message_of<DataError>([&] { repeated(model); }),
                       {days.link(2), "it is damaged"});
}

TEST_CASE("a chain takes no delta that does not follow it") {
  const DeltaDays days(2);
  DeltaModel other(50);
  const auto refused = [&](int64_t iteration, int base_day) {
    const ReadFile base(days.full(base_day));
    return test::message_of<DataError>(
        [&] { write_delta(days.chain(), iteration, base, sum_of_file(base), other.tensors()); });
  };
  test::check_contains(refused(20, 2), {days.chain(), "ends before iteration 20", "of 20"});
  test::check_contains(refused(30, 1), {days.chain(), "expected a chain that ends in", "full_1"});
  const ReadFile base(days.full(2));
  FileSum wrong = sum_of_file(base);
  wrong.xxh3_64 ^= 1;
  test::check_contains(test::message_of<DataError>([&] {
                         write_delta(days.chain() + "_2", 30, base, wrong, other.tensors());
                       }),
                       {"full_2", "expected the weights that the run began from"});
  CHECK(DeltaChain(days.chain()).links().size() == 2);
  CHECK(DeltaChain(days.chain() + "_none").links().empty());
}

}  // namespace hlite::checkpoint
