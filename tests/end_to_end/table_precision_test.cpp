// Tables in 16 bits (`solver.table_precision`): what a run makes of them, and what files hold.
#include <sstream>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/float_type.h"
#include "tests/end_to_end/emulated_gpu.h"
#include "tests/end_to_end/golden_on_gpus.h"
#include "tests/end_to_end/golden_run.h"
#include "tests/end_to_end/small_run.h"
#include "tests/support/errors.h"

namespace hlite::test {
namespace {

std::string tables_in(const std::string& precision) {
  return "solver.table_precision=" + precision;
}

void train_to_end(const SmallRun& run, const Words& changes, Words arguments) {
  arguments.push_back("--quiet");
  REQUIRE(run.train(std::move(arguments), changes).code == 0);
}

std::string weights_in(const SmallRun& run, const std::string& checkpoint) {
  return read_text(run / checkpoint + "/weights.safetensors");
}

const std::string kLocal =
    R"(layers.emb.optimizer={"type":"Adam","update_type":"Local","adam_hparam":{"learning_rate":0.01,)"
    R"("beta1":0.9,"beta2":0.999,"epsilon":1e-8}})";

// The dtype of each tensor of a file.
std::map<std::string, DType> dtypes_of(const std::string& path) {
  const ReadFile file(path);
  const checkpoint::SafetensorsReader reader(file);
  std::map<std::string, DType> types;
  for (const auto& e : reader.tensors()) types[e.name] = e.dtype;
  return types;
}

}  // namespace

TEST_CASE("a run with tables in 16 bits repeats, on any threads and across a resume",
          "[slow][release-only]") {
  const auto type = [](const std::string& name, const std::string& hparam) {
    return Words{"layers.emb.type=" + name, "layers.emb.sparse_embedding_hparam={" + hparam +
                                                R"("embedding_vec_size":4,"combiner":0})"};
  };
  const Words kinds[] = {
      {},
      {kLocal},
      type("LocalizedSlotSparseEmbeddingOneHot", R"("slot_size_array":[40,5,300],)"),
      type("DistributedSlotSparseEmbeddingHash", R"("max_vocabulary_size_per_gpu":345,)")};
  for (const char* precision : {"bf16", "fp16"})
    for (const Words& kind : kinds)
      for (const char* ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
        if (kSanitized && ranks != std::string("[[0,1]]")) continue;
        INFO(fmt::format("{}, {} on {}", precision, fmt::join(kind, " "), ranks));
        const SmallRun run;
        Words changes = kind;
        changes.insert(changes.end(), {tables_in(precision), gpu(ranks), "solver.max_iter=40"});
        train_to_end(run, changes, {"--threads", "4", "--save", run / "whole"});
        train_to_end(run, changes, {"--threads", "4", "--save", run / "again"});
        CHECK((everything(run / "again") == everything(run / "whole")));
        Words half = changes;
        half.back() = "solver.max_iter=17";
        train_to_end(run, half, {"--threads", "4", "--save", run / "half"});
        train_to_end(run, changes,
                     {"--threads", "4", "--resume", run / "half", "--save", run / "rest"});
        CHECK((weights_in(run, "rest") == weights_in(run, "whole")));
        CHECK((everything(run / "rest") == everything(run / "whole")));
      }
}

TEST_CASE("a checkpoint holds tables in their 16 bits, an export in float") {
  const SmallRun run;
  for (const auto& [precision, dtype] : {std::pair{"bf16", DType::kBf16}, {"fp16", DType::kF16}})
    for (const char* ranks : {"[0]", "[[0,1]]"}) {
      INFO(precision << " on " << ranks);
      train_to_end(run, {tables_in(precision), gpu(ranks), "solver.max_iter=20"},
                   {"--save", run / "saved", "--export", run / "exported.safetensors"});
      for (const auto& [name, found] : dtypes_of(run / "saved/weights.safetensors"))
        CHECK((found == (name.starts_with("emb.table_") ? dtype : DType::kF32)));
      for (const auto& [name, found] : dtypes_of(run / "saved/optimizer.safetensors"))
        CHECK((found == DType::kF32));
      for (const auto& [name, found] : dtypes_of(run / "exported.safetensors"))
        CHECK((found == DType::kF32));
      CHECK((read_weights(run / "exported.safetensors") ==
             read_weights(run / "saved/weights.safetensors")));
    }
}

TEST_CASE("a run resumes with tables of the same precision alone, and starts from any") {
  const SmallRun run;
  const FloatType types[] = {FloatType::kFloat, FloatType::kBf16, FloatType::kFp16};
  for (const FloatType type : types)
    train_to_end(run, {tables_in(float_type_name(type)), "solver.max_iter=5"},
                 {"--save", run / float_type_name(type)});
  for (const FloatType from : types)
    for (const FloatType to : types) {
      const std::string saved = float_type_name(from), wanted = float_type_name(to);
      INFO(saved << " to " << wanted);
      const Words changes = {tables_in(wanted), "solver.max_iter=6"};
      const auto resumed = run.train(with_changes({"--quiet", "--resume", run / saved}, changes));
      CHECK(resumed.code == (from == to ? 0 : kExitConfig));
      if (from != to)
        check_contains(resumed.err, {"solver.table_precision: expected \"" + saved + "\"",
                                     "found \"" + wanted + "\"", "--init"});
      // A step at a rate of 0 shows what was read.
      const std::string still =
          R"(layers.emb.optimizer={"type":"SGD","update_type":"Local","sgd_hparam":{"learning_rate":0}})";
      train_to_end(run, {tables_in(wanted), "solver.max_iter=1", still},
                   {"--init", run / saved, "--export", run / "read.safetensors"});
      const Tensors before = read_weights(run / saved + "/weights.safetensors"),
                    after = read_weights(run / "read.safetensors");
      for (const char* table : {"emb.table_0", "emb.table_1", "emb.table_2"}) {
        std::vector<float> want = before.at(table);
        for (float& w : want) w = rounded_to(to, w);
        CHECK((after.at(table) == want));
      }
    }
}

TEST_CASE("scores are those of the tables' 16 bits, whatever predict keeps them in") {
  const SmallRun run;
  train_to_end(run, {tables_in("bf16"), "solver.max_iter=30"},
               {"--save", run / "saved", "--export", run / "exported.safetensors"});
  const auto scores = [&](const std::string& model, const Words& changes) {
    const auto result = run_program(
        with_changes({HLITE_PREDICT, "--threads", "2", "--model", run / model, "--config",
                      run / "config.json", "--input", run / "eval.bin", "--out", "-"},
                     changes));
    REQUIRE(result.code == 0);
    return result.out;
  };
  const std::string want = scores("saved", {});
  CHECK(std::count(want.begin(), want.end(), '\n') == 334);
  CHECK((scores("saved", {tables_in("bf16")}) == want));
  CHECK((scores("exported.safetensors", {}) == want));
  CHECK((scores("exported.safetensors", {tables_in("bf16")}) == want));
}

TEST_CASE("golden runs with tables in 16 bits stay near those of float",
          "[no-tsan][release-only]") {
  const std::string seed = "solver.seed=1";  // draws come from it
  for (const char* precision : {"bf16", "fp16"}) {
    check_run_16_bits("dlrm_fused", {tables_in(precision), gpu("[[0]]"), seed});
    check_run_16_bits("dlrm_plain", {tables_in(precision), gpu("[[0,1]]"), seed});
  }
}

TEST_CASE("train --check counts 16 bits for an element of a table") {
  const SmallRun run;
  const Words large = {
      R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[4000000,500000,3000000],)"
      R"("embedding_vec_size":4,"combiner":0})"};
  const auto check = [&](const std::string& precision) {
    Words changes = large;
    changes.push_back(tables_in(precision));
    const auto result = run.train(with_changes({"--check"}, changes));
    REQUIRE(result.code == 0);
    return result.out + result.err;
  };
  const auto tables = [](const std::string& text) {
    const size_t at = text.find("embedding tables");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  };
  CHECK(tables(check("fp32")).find("120.0 MB") != std::string::npos);
  for (const char* precision : {"bf16", "fp16"})
    CHECK(tables(check(precision)).find("60.0 MB") != std::string::npos);
}

TEST_CASE("penalties and clipping of tables in 16 bits are near those of float, and repeat",
          "[release-only]") {
  const SmallRun run;
  const std::string penalty =
      R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],"embedding_vec_size":4,)"
      R"("combiner":0,"regularizer":"L2","lambda":0.02})";
  for (const char* change : {penalty.c_str(), "solver.gradient_clip_norm=0.05"})
    for (const char* ranks : {"[0]", "[[0,1],[2,3]]"}) {
      INFO(change << " on " << ranks);
      const auto trained = [&](const char* precision, const std::string& name, int iterations,
                               const Words& more) {
        Words arguments = {"--threads", "4", "--save", run / name};
        arguments.insert(arguments.end(), more.begin(), more.end());
        train_to_end(run,
                     {change, tables_in(precision), gpu(ranks),
                      "solver.max_iter=" + std::to_string(iterations)},
                     arguments);
        return everything(run / name);
      };
      const Tensors wide = trained("fp32", "wide", 30, {}),
                    narrow = trained("bf16", "narrow", 30, {});
      double off = 0, most = 0;
      for (const char* table : {"emb.table_0", "emb.table_1", "emb.table_2"})
        for (size_t i = 0; i < wide.at(table).size(); ++i) {
          const double w = wide.at(table)[i], apart = std::abs(w - narrow.at(table)[i]);
          off += apart;
          most = std::max(most, apart);
        }
      CHECK(off > 0.01);   // it was not float
      CHECK(most < 0.05);  // of weights that have moved by up to 0.3, as Adam moves them
      trained("bf16", "half", 13, {});
      CHECK((trained("bf16", "rest", 30, {"--resume", run / "half"}) == narrow));
    }
}

namespace {

// A float near the middle of two draws may go up on one device and down on the other: nearly all
// weights have the same bits, and none is far off. States are floats, which differ by roundings.
void check_nearly(const Tensors& got, const Tensors& want) {
  for (const auto& [name, values] : want) {
    INFO(name);
    const bool in_16_bits = name.starts_with("emb.table_") && name.find('.', 4) == name.npos;
    const std::vector<float>& other = got.at(name);
    REQUIRE(other.size() == values.size());
    size_t differ = 0;
    double most = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double apart = std::abs(double{other[i]} - double{values[i]});
      differ += in_16_bits && apart > 0 ? 1 : 0;
      most = std::max(most, apart);
    }
    CHECK(static_cast<double>(differ) <= 0.05 * static_cast<double>(values.size()));
    CHECK(most < 0.02);
  }
}

Tensors trained_on(const SmallRun& run, const Words& environment, const char* device,
                   const Words& changes, const std::string& name, const Words& more = {}) {
  const Words all =
      environment +
      run.command({"--quiet", "--device", device, "--threads", "1", "--save", run / name}) +
      changes_of(changes) + more;
  const auto result = run_program(all);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return everything(run / name);
}

}  // namespace

TEST_CASE("tables in 16 bits train on GPUs as on the CPU, repeat and resume",
          "[release-only][slow]") {
  const auto type = [](const std::string& name, const std::string& hparam) {
    return Words{"layers.emb.type=" + name, "layers.emb.sparse_embedding_hparam={" + hparam +
                                                R"("embedding_vec_size":4,"combiner":0})"};
  };
  const Words kinds[] = {
      {},
      {kLocal},
      {"solver.precision=bf16", kLocal},
      type("LocalizedSlotSparseEmbeddingOneHot", R"("slot_size_array":[40,5,300],)"),
      type("LocalizedSlotSparseEmbeddingOneHot",
           R"("slot_size_array":[40,5,300],"sharding":"auto",)"),
      type("DistributedSlotSparseEmbeddingHash", R"("max_vocabulary_size_per_gpu":345,)"),
      type("LocalizedSlotSparseEmbeddingHash", R"("max_vocabulary_size_per_gpu":345,)")};
  for (const std::string precision : {"bf16", "fp16"})
    for (const Words& kind : kinds)
      for (const std::string ranks : {"[0]", "[[0,1]]", "[[0,1],[2,3]]"}) {
        // In fp16 every kind on two ranks, and the first one on one and four.
        if (precision == "fp16" && ranks != "[[0,1]]" && !kind.empty()) continue;
        INFO(fmt::format("{}, {} on {}", precision, fmt::join(kind, " "), ranks));
        const SmallRun run;
        const auto until = [&](int iterations, const Words& more = {}) {
          return kind + more +
                 Words{tables_in(precision), gpu(ranks), "solver.eval_interval=7",
                       "solver.max_iter=" + std::to_string(iterations)};
        };
        const Tensors whole = trained_on(run, kFourGpus, "cuda", until(20), "whole");
        CHECK((trained_on(run, kFourGpus + Words{order_of(4)}, "cuda",
                          until(20, {"solver.cuda_graph=false"}), "plain") == whole));
        trained_on(run, kFourGpus, "cuda", until(11), "half");
        CHECK((trained_on(run, kFourGpus, "cuda", until(20), "rest", {"--resume", run / "half"}) ==
               whole));
        // A step from the same state: what differs is how sums are added up.
        const Words from = {"--resume", run / "half"};
        check_nearly(trained_on(run, kFourGpus, "cuda", until(13), "gpu", from),
                     trained_on(run, {}, "cpu", until(13), "cpu", from));
      }
}

TEST_CASE("tables in 16 bits lie in the memory of a GPU's host, to the bits of those in its own",
          "[release-only][slow]") {
  const SmallRun run;
  const std::string large = R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],)"
                            R"("embedding_vec_size":4,"combiner":0})";
  for (const auto& [precision, ranks] :
       {std::pair{"bf16", "[0]"}, {"bf16", "[[0,1]]"}, {"fp16", "[0]"}}) {
    INFO(precision << " on " << ranks);
    const auto with = [&, precision = precision, ranks = ranks](const Words& more) {
      return more + Words{large,
                          kLocal,
                          tables_in(precision),
                          gpu(ranks),
                          "solver.batchsize=16",
                          "solver.batchsize_eval=16",
                          "solver.eval_interval=5",
                          "solver.max_iter=18"};
    };
    const Tensors want = trained_on(run, kFourGpus, "cuda", with({}), "memory");
    const auto in_host = [&](const std::string& gigabytes) {
      return with({"solver.embedding_memory={\"gpu_gb\":" + gigabytes + "}"});
    };
    // The least that is possible.
    const auto refused = run_program(kFourGpus + run.command({"--quiet", "--device", "cuda"}) +
                                     changes_of(in_host("1e-9")));
    const std::string before = "expected at least ";
    const size_t at = refused.err.find(before);
    REQUIRE(at != std::string::npos);
    const std::string least = refused.err.substr(at + before.size(), 8);
    CHECK((trained_on(run, kFourGpus, "cuda", in_host(least), "host") == want));
  }
}

TEST_CASE("penalties and clipping of tables in 16 bits on a GPU are near those of the CPU",
          "[release-only]") {
  const SmallRun run;
  const std::string penalty =
      R"(layers.emb.sparse_embedding_hparam={"slot_size_array":[40,5,300],"embedding_vec_size":4,)"
      R"("combiner":0,"regularizer":"L2","lambda":0.02})";
  for (const char* precision : {"bf16", "fp16"})
    for (const char* change : {penalty.c_str(), "solver.gradient_clip_norm=0.05"})
      for (const char* ranks : {"[0]", "[[0,1],[2,3]]"}) {
        INFO(precision << ", " << change << " on " << ranks);
        const Words changes = {change, tables_in(precision), gpu(ranks), "solver.max_iter=2"};
        check_nearly(trained_on(run, kFourGpus, "cuda", changes, "gpu"),
                     trained_on(run, {}, "cpu", changes, "cpu"));
      }
}

TEST_CASE("a GPU scores with tables in 16 bits as the CPU does") {
  for (const char* precision : {"bf16", "fp16"}) {
    INFO(precision);
    const SmallRun run;
    train_to_end(run, {tables_in(precision), "solver.max_iter=30"}, {"--save", run / "saved"});
    std::vector<std::vector<double>> scores;
    for (const char* device : {"cpu", "cuda"}) {
      const auto result = run_program(
          kEmulated +
          Words{HLITE_PREDICT, "--threads", "2", "--device", device, "--model", run / "saved",
                "--config", run / "config.json", "--input", run / "eval.bin", "--out", "-"} +
          changes_of({tables_in(precision)}));
      INFO(result.err);
      REQUIRE(result.code == 0);
      std::vector<double>& of = scores.emplace_back();
      std::istringstream lines(result.out);
      std::string header;
      lines >> header;
      for (double score = 0; lines >> score;) of.push_back(score);
    }
    REQUIRE(scores[0].size() == 333);
    REQUIRE(scores[1].size() == 333);
    for (size_t i = 0; i < 333; ++i) CHECK(std::abs(scores[0][i] - scores[1][i]) < 1e-4);
  }
}

}  // namespace hlite::test
