// tests/bench/probe: what it does on the host, and its kernels on the emulated device. P6 and P7
// need a device's own time and a driver, and are only compiled.
#include <cuda_runtime.h>  // the emulated one
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "hugectr_lite/core/error.h"
#include "tests/bench/probe/probe.h"
#include "tests/cuda/matmul_library.h"
#include "tests/support/cuda_backends.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

using probe::Product;
using probe::Record;

std::vector<nlohmann::json> records_of(void (*probe)(const probe::Context&), double seconds = 600) {
  std::vector<nlohmann::json> records;
  const probe::Context context{
      .seconds = seconds,
      .small = true,
      .put = [&](const Record& r) { records.push_back(nlohmann::json::parse(r.line())); },
      .backend = &emulated_cuda()};
  probe(context);
  return records;
}

// Those of a record with this epilogue.
nlohmann::json with_epilogue(const std::vector<nlohmann::json>& records, const std::string& name) {
  const auto found = std::find_if(records.begin(), records.end(),
                                  [&](const auto& r) { return r["epilogue"] == name; });
  REQUIRE(found != records.end());
  return *found;
}

}  // namespace

TEST_CASE("a probe's record is a line of JSON") {
  CHECK(Record("P1")
            .add("product", "dlrm \"z1\"\n")
            .add("batch", int64_t{65536})
            .add("us", 1.25)
            .add("worst", std::numeric_limits<double>::quiet_NaN())
            .add("waits", true)
            .add("text", std::string("\xff"))
            .line() ==
        "{\"probe\":\"P1\",\"product\":\"dlrm \\\"z1\\\"\\n\",\"batch\":65536,\"us\":1.25,"
        "\"worst\":null,\"waits\":true,\"text\":\"\xef\xbf\xbd\"}\n");
}

TEST_CASE("statistics of a probe's times") {
  const auto of_one = probe::statistics_of({3});
  CHECK((of_one.least == 3 && of_one.median == 3 && of_one.p90 == 3 && of_one.most == 3));
  const auto of_ten = probe::statistics_of({10, 1, 9, 2, 8, 3, 7, 4, 6, 5});
  CHECK((of_ten.least == 1 && of_ten.median == 5.5 && of_ten.p90 == 10 && of_ten.most == 10));
  CHECK_THROWS_AS(probe::statistics_of({}), Error);
  CHECK(probe::count_different({}) == 0);
  CHECK(probe::count_different({5, 5, 6, 5, 7}) == 2);
}

TEST_CASE("which probes are run") {
  using Names = std::vector<std::string>;
  CHECK(probe::parse_only("P3,P1,P3") == Names{"P1", "P3"});
  CHECK(probe::parse_only("P7") == Names{"P7"});
  for (const char* wrong : {"", "P0", "P8", "P1,", ",P1", "p1", "P1 ,P2", "P11"})
    CHECK(message_of<ConfigError>([&] { (void)probe::parse_only(wrong); }) ==
          "--only: expected some of P1 to P7, as in P1,P3, found '" + std::string(wrong) + "'");
}

TEST_CASE("the products that are probed") {
  const auto all = probe::products_of(8192);
  std::set<std::string> names;
  for (const Product& p : all) {
    INFO(p.name);
    CHECK(names.insert(p.name).second);
    // The batch is the columns of a result or, for weights, what is summed over.
    CHECK((p.name.ends_with(".wgrad") ? p.k : p.n) == 8192);
    CHECK(p.turn_b == p.name.ends_with(".wgrad"));
    CHECK(p.float_result == p.turn_b);
    CHECK(p.turn_a == p.name.ends_with(".bprop"));
    REQUIRE(!p.epilogues.empty());
    CHECK(p.epilogues.front().number == probe::kDefault);
  }
  // Ten layers, of which the lowest has no gradient of data.
  CHECK(all.size() == 29);
  const auto named = [&](const std::string& name) {
    return *std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
  };
  CHECK(named("dlrm.z1.fprop").k == 480);  // 128 + 27 * 26 / 2 + 1
  CHECK(named("dlrm.z1.bprop").epilogues.size() == 1);
  CHECK(named("dlrm.z2.bprop").epilogues.size() == 3);
  CHECK(named("dcnv2.z1.fprop").k == 27 * 128);
  CHECK(named("dcnv2.cross_v.wgrad").m == 27 * 128);
  CHECK(named("dlrm.z2.fprop").flops() == 2.0 * 8192 * 1024 * 1024);
}

TEST_CASE("a product fills all multiprocessors, and fewer than there are") {
  CHECK(probe::sm_targets(132) == std::vector<int>{0, 112, 96, 80, 64});
  CHECK(probe::sm_targets(96) == std::vector<int>{0, 80, 64});
  CHECK(probe::sm_targets(1) == std::vector<int>{0});
}

TEST_CASE("a probe that fails, dies or hangs leaves what it has found") {
  const auto run = [](double limit, const std::function<void()>& end) {
    return probe::run_in_process(limit, [&](const auto& write) {
      write("{\"a\":1}\n");
      end();
    });
  };
  const auto well = run(600, [] {});
  CHECK((well.lines == "{\"a\":1}\n" && well.failure.empty() && !well.overran));
  const auto failed = run(600, [] { raise<DeviceError>("two\nlines"); });
  CHECK((failed.lines == well.lines && failed.failure == "two lines"));
  CHECK(run(600, [] { ::_exit(3); }).failure == "exit code 3");
  const auto killed = run(600, [] { ::raise(SIGKILL); });
  CHECK((killed.lines == well.lines && killed.failure == "ended by signal 9"));
  const auto hung = run(0.5, [] { ::pause(); });
  CHECK((hung.lines == well.lines && hung.overran));
  CHECK(hung.failure.starts_with("did not end within "));
  const auto cut = probe::run_in_process(600, [](const auto& write) {
    write("{\"a\":1}\n{\"b");
    ::_exit(0);
  });
  CHECK((cut.lines == well.lines && cut.failure.empty()));
}

TEST_CASE("a table of a probe's records") {
  CHECK(probe::table_of({}).empty());
  CHECK(probe::table_of({R"({"probe":"P3","chain":"graph","us":1.25})",
                         R"({"probe":"P3","chain":"a longer one","us":null})",
                         R"({"probe":"P5","yes":true,"algorithm":"00ff"})"}) ==
        "probe  chain         us\nP3     graph         1.25\nP3     a longer one  -\n\n"
        "probe  yes\nP5     true\n\n");
}

TEST_CASE("products are probed with each epilogue") {
  MatmulLibraryGuard library;
  const auto records = records_of(probe::probe_products);
  CHECK(records.size() == 3 + 3 + 2);  // z2, for one batch on one multiprocessor
  for (const auto& r : records) {
    INFO(r);
    CHECK((r["probe"] == "P1" && r["batch"] == 16 && r["sms"] == 0));
    CHECK((r["ran"].get<int>() > 1 && r["repeats"] == 20 && r["varied"] == 0));
    CHECK(r["us"].get<double>() <= r["us_first"].get<double>());
    CHECK(!r["algorithm"].get<std::string>().empty());
    // Algorithms sum in different orders, so that a few are rounded to the neighbour.
    CHECK(r["worst"].get<double>() < 0.01);
    if (!r["sums_worst"].is_null()) CHECK(r["sums_worst"].get<double>() < 0.01);
    if (!r["mask_wrong"].is_null()) CHECK(r["mask_wrong"] == 0);
  }
  CHECK(with_epilogue(records, "RELU_AUX_BIAS")["mask_wrong"].is_number());
  CHECK(with_epilogue(records, "DRELU")["mask_wrong"].is_null());
  CHECK(with_epilogue(records, "DRELU_BGRAD")["sums_worst"].is_number());
  CHECK(with_epilogue(records, "BGRADA")["sums_worst"].is_number());
  CHECK(library->most_asked == 64);
}

TEST_CASE("what an epilogue does wrong shows in its record") {
  using emulation::EpilogueFault;
  const struct {
    EpilogueFault fault;
    const char *epilogue, *key;
    double least;
  } cases[] = {{EpilogueFault::kNoBias, "RELU_BIAS", "worst", 0.1},
               {EpilogueFault::kNoRelu, "RELU_BIAS", "worst", 0.1},
               {EpilogueFault::kRoundsTwice, "RELU_BIAS", "differ", 0.02},
               {EpilogueFault::kFullMask, "RELU_AUX_BIAS", "worst", 0},
               {EpilogueFault::kIgnoresMask, "DRELU", "worst", 0.1},
               {EpilogueFault::kUnmaskedSums, "DRELU_BGRAD", "sums_worst", 0.1},
               {EpilogueFault::kNoSums, "BGRADA", "sums_worst", 0.1}};
  for (const auto& c : cases) {
    MatmulLibraryGuard library;
    library->fault = c.fault;
    const auto record = with_epilogue(records_of(probe::probe_products), c.epilogue);
    INFO(record);
    CHECK(record[c.key].get<double>() >= c.least);
  }
}

TEST_CASE("a digest sees every bit and its place") {
  const auto digest_of = [](const std::vector<uint32_t>& words) {
    const DeviceArray<uint32_t> data(emulated_cuda(), words);
    const DeviceArray<unsigned long long> digest(emulated_cuda(),
                                                 std::vector<unsigned long long>{0});
    probe::add_digest(data.data(), std::ssize(words), digest.data(), nullptr);
    return digest.to_host(nullptr)[0];
  };
  std::vector<uint32_t> words(1000);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<uint32_t>(i / 2);
  const auto before = digest_of(words);
  CHECK(digest_of(words) == before);
  words[999] ^= 1u << 31;
  CHECK(digest_of(words) != before);
  words[999] ^= 1u << 31;
  std::swap(words[1], words[2]);
  CHECK(digest_of(words) != before);
}

TEST_CASE("a product without an algorithm, and one that does not run, are recorded") {
  MatmulLibraryGuard library;
  library->epilogues = false;
  auto record = with_epilogue(records_of(probe::probe_products), "DRELU");
  CHECK((record["candidates"] == 0 && record["us"].is_null() && record["algorithm"] == ""));
  library->epilogues = true;
  library->fails[2] = true;
  record = with_epilogue(records_of(probe::probe_products), "plain");
  CHECK(record["ran"].get<int>() == record["candidates"].get<int>() - 1);
}

TEST_CASE("a probe without time says where it stopped") {
  CHECK(message_of<std::exception>([] { records_of(probe::probe_products, -1); }) ==
        "its time is over at dlrm.z2.fprop, batch 16");
}

TEST_CASE("products are probed beside the update and the interaction") {
  const auto records = records_of(probe::probe_overlap);
  CHECK(records.size() == 3 * 2);
  for (const auto& r : records) CHECK((r["probe"] == "P2" && r["together_us"].is_number()));
}

TEST_CASE("chains, gathers and copy nodes are probed") {
  CHECK(records_of(probe::probe_chains).size() == 2 * 7);
  CHECK(records_of(probe::probe_gather).size() == 2 * 3);
  CHECK(records_of(probe::probe_copy_nodes).size() == 9);
  CHECK(probe::why_no_device().empty());
  CHECK(records_of(probe::describe_device)[0]["multiprocessors"] == 1);
}

}  // namespace hlite::test
