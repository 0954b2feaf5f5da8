// Scores, losses and metrics of `predict` and of `train`'s evaluations by their definitions.
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "hugectr_lite/trainer/report/event_numbers.h"
#include "tests/predict/predict_case.h"
#include "tests/support/all_metrics.h"
#include "tests/support/catch.h"
#include "tests/support/errors.h"
#include "tests/support/metrics_events.h"
#include "tests/support/program.h"

namespace hlite {
namespace {

using test::check_contains;
using test::log_loss;
using test::number_after;
using test::predict;
using test::ProgramResult;
using test::scores_in;
using test::SmallRun;

// Returns the metrics of the last evaluation of a training run.
nlohmann::json last_evaluation(const SmallRun& run) {
  return test::last_event(run / "metrics.jsonl", "eval");
}

const std::vector<std::string>& on_two_ranks() {
  static const std::vector<std::string> options = {"--save",    "ck",
                                                   "--metrics", "metrics.jsonl",
                                                   "--set",     "solver.gpu=[[0,1]]",
                                                   "--set",     "layers.data.eval_num_samples=333"};
  return options;
}

ProgramResult train_changed(const SmallRun& run, const std::vector<std::string>& changes) {
  std::vector<std::string> options = on_two_ranks();
  for (const std::string& change : changes) options.insert(options.end(), {"--set", change});
  std::vector<std::string> command = run.command(options);
  return test::run_program(command, run.path());
}

std::vector<double> scores_of_model(const SmallRun& run, ProgramResult& printed,
                                    const std::vector<std::string>& changes = {}) {
  std::vector<std::string> options = {"--model", "ck", "--input", "eval.bin", "--out", "-"};
  for (const std::string& change : changes) options.insert(options.end(), {"--set", change});
  printed = predict(run, options);
  REQUIRE(printed.code == 0);
  std::vector<double> scores = scores_in(printed.out);
  REQUIRE(scores.size() == 333);
  return scores;
}

TEST_CASE("scores of a model that saw a share of the negatives are right for all of them") {
  constexpr double kShare = 0.2;
  const SmallRun run;
  REQUIRE(train_changed(run, {"layers.data.negative_share=0.2"}).code == 0);
  ProgramResult printed, plain;
  const std::vector<double> scores = scores_of_model(run, printed);
  const std::vector<double> learnt = scores_of_model(run, plain, {"layers.data.negative_share=1"});
  for (size_t i = 0; i < scores.size(); ++i) {
    const double q = learnt[i];
    CHECK(scores[i] == Approx(q / (q + (1 - q) / kShare)).epsilon(2e-6));
  }
  const std::string records = test::read_text(run / "eval.bin");
  const double loss = log_loss(scores, records);
  CHECK(number_after(printed.err, "log loss ") == Approx(loss).margin(2e-6));
  CHECK(last_evaluation(run)["loss"].get<double>() == Approx(loss).margin(2e-6));
  // s is the share, and p = s q / (1 - (1 - s) q): the loss of a sample moves by log(1 - (1 - s) q),
  // and that of a positive one by -log s too. That is a thousand tolerances, which no other loss
  // than the corrected one comes near.
  double moved = 0;
  for (size_t i = 0; i < learnt.size(); ++i)
    moved += std::log1p((kShare - 1) * learnt[i]) - (records[24 * i] != 0 ? std::log(kShare) : 0);
  moved /= static_cast<double>(learnt.size());
  REQUIRE(std::abs(moved) > 1000 * 4e-6);
  const double before = number_after(plain.err, "log loss ");
  CHECK(before == Approx(log_loss(learnt, records)).margin(2e-6));
  CHECK(number_after(printed.err, "log loss ") - before == Approx(moved).margin(4e-6));
  CHECK(last_evaluation(run)["loss"].get<double>() - before == Approx(moved).margin(4e-6));
  CHECK(number_after(printed.err, "AUC ") == number_after(plain.err, "AUC "));
}

TEST_CASE("predict says the further metrics of the model's config, which are the evaluation's") {
  const SmallRun run;
  REQUIRE(train_changed(run, test::with_all_metrics()).code == 0);
  ProgramResult printed;
  scores_of_model(run, printed);
  const nlohmann::json evaluation = last_evaluation(run);
  for (const std::string& name : test::all_metrics()) {
    trainer::EvalResult result;
    result.more = {{name, 0}};
    const std::string key = trainer::numbers_of(result)[2].name;
    INFO(key);
    CHECK(number_after(printed.err, ", " + name + " ") ==
          Approx(evaluation[key].get<double>()).margin(1e-6));
  }
}

TEST_CASE(
    "a base score multiplies the odds of scores, and a scale the values, in evaluations too") {
  const SmallRun run;
  const std::string records = test::read_text(run / "eval.bin");
  REQUIRE(train_changed(run, {"layers.loss.base_score=0.2"}).code == 0);
  ProgramResult printed, plain;
  std::vector<double> scores = scores_of_model(run, printed);
  std::vector<double> without = scores_of_model(run, plain, {"layers.loss.base_score=0.5"});
  for (size_t i = 0; i < scores.size(); ++i) {
    const double q = without[i];
    CHECK(scores[i] == Approx(0.2 * q / (0.2 * q + 0.8 * (1 - q))).epsilon(2e-6));
  }
  const double loss = log_loss(scores, records);
  CHECK(number_after(printed.err, "log loss ") == Approx(loss).margin(2e-6));
  CHECK(last_evaluation(run)["loss"].get<double>() == Approx(loss).margin(2e-6));

  REQUIRE(train_changed(run, {"layers.loss.type=MSELoss", "layers.loss.base_score=-7",
                              "layers.loss.score_scale=2"})
              .code == 0);
  scores = scores_of_model(run, printed);
  without = scores_of_model(run, plain, {"layers.loss.base_score=", "layers.loss.score_scale="});
  double squares = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    CHECK(scores[i] == Approx(-7 + 2 * without[i]).epsilon(1e-6));
    squares += std::pow(scores[i] - (records[24 * i] != 0 ? 1 : 0), 2) / 333;
  }
  CHECK(number_after(printed.err, "mean squared error ") == Approx(squares).epsilon(1e-5));
  CHECK(last_evaluation(run)["loss"].get<double>() == Approx(squares).epsilon(1e-5));
}

TEST_CASE("a model with MSELoss scores values, and evaluations say their error") {
  const SmallRun run;
  std::string records[] = {test::read_text(run / "train.bin"), test::read_text(run / "eval.bin")};
  for (std::string& of : records)  // labels -1 to 2, by the first key
    for (size_t at = 0; at < of.size(); at += 24) {
      int32_t words[6];
      std::memcpy(words, of.data() + at, sizeof(words));
      words[0] = words[3] % 4 - 1;
      std::memcpy(of.data() + at, words, sizeof(words));
    }
  test::write_text(run / "train.bin", records[0]);
  test::write_text(run / "eval.bin", records[1]);
  const std::string type = "layers.loss.type=MSELoss";
  const ProgramResult refused = train_changed(run, {type});
  CHECK(refused.code == 3);
  check_contains(refused.err, {"train.bin: sample ", "label 0: expected a value in [0, 1]"});
  const ProgramResult trained = train_changed(run, {type, "layers.data.label.real=true"});
  REQUIRE(trained.code == 0);
  ProgramResult printed;
  const std::vector<double> values = scores_of_model(run, printed);
  double squares = 0, around = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    int32_t label = 0;
    std::memcpy(&label, records[1].data() + 24 * i, sizeof(label));
    squares += (values[i] - label) * (values[i] - label) / 333;
    around += (0.5 - label) * (0.5 - label) / 333;
  }
  CHECK(squares < 0.8 * around);  // learnt
  CHECK(number_after(printed.err, "RMSE ") == Approx(std::sqrt(squares)).margin(2e-6));
  CHECK(number_after(printed.err, "mean squared error ") == Approx(squares).epsilon(1e-6));
  const nlohmann::json evaluation = last_evaluation(run);
  CHECK(evaluation["loss"].get<double>() == Approx(squares).epsilon(1e-6));
  CHECK(evaluation["rmse"].get<double>() == Approx(std::sqrt(squares)).epsilon(1e-6));
  CHECK(evaluation["auc"].is_null());
  check_contains(trained.out + trained.err, {"evaluation: loss ", "  RMSE "});
}

TEST_CASE("metrics of weighted samples are weighted, on any ranks and in predict") {
  const SmallRun run;
  const auto weighted = [](const std::string& records, std::vector<double>* weights) {
    std::string text;
    for (size_t at = 0; at < records.size(); at += 24) {
      const float weight = at / 24 % 5 == 0 ? 0.0f : 0.25f * static_cast<float>(at / 24 % 13);
      text += records.substr(at, 4);
      text.append(reinterpret_cast<const char*>(&weight), sizeof(weight));
      text += records.substr(at + 4, 20);
      if (weights) weights->push_back(static_cast<double>(weight));
    }
    return text;
  };
  const std::string labels = test::read_text(run / "eval.bin");
  std::vector<double> weights;
  test::write_text(run / "train.bin", weighted(test::read_text(run / "train.bin"), nullptr));
  test::write_text(run / "eval.bin", weighted(labels, &weights));
  REQUIRE(train_changed(run, {"layers.data.label.sample_weight=true"}).code == 0);
  ProgramResult printed;
  const std::vector<double> scores = scores_of_model(run, printed);
  double loss = 0, all = 0, won = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool positive = labels[24 * i] != 0;
    loss -= weights[i] * std::log(positive ? scores[i] : 1 - scores[i]);
    all += weights[i];
    for (size_t j = 0; positive && j < scores.size(); ++j) {
      if (labels[24 * j] != 0) continue;
      pairs += weights[i] * weights[j];
      won += weights[i] * weights[j] *
             (scores[i] > scores[j]    ? 1
              : scores[i] == scores[j] ? 0.5
                                       : 0);
    }
  }
  const nlohmann::json evaluation = last_evaluation(run);
  CHECK(evaluation["loss"].get<double>() == Approx(loss / all).margin(2e-6));
  CHECK(evaluation["auc"].get<double>() == Approx(won / pairs).margin(1e-5));
  CHECK(number_after(printed.err, "log loss ") == Approx(loss / all).margin(2e-6));
  CHECK(number_after(printed.err, "AUC ") == Approx(won / pairs).margin(1e-5));
  // A weight that is none is named, in training as in predict.
  for (const char* file : {"train.bin", "eval.bin"})
    for (const float wrong : {-1.0f, std::numeric_limits<float>::quiet_NaN()}) {
      const std::string good = test::read_text(run / file);
      std::string bad = good;
      std::memcpy(&bad[28 * 222 + 4], &wrong, sizeof(wrong));
      test::write_text(run / file, bad);
      const ProgramResult refused = train_changed(run, {"layers.data.label.sample_weight=true"});
      CHECK(refused.code == 3);
      check_contains(refused.err,
                     {fmt::format("{}: sample 222 (byte {}), sample weight: expected a "
                                  "finite value >= 0, found {}",
                                  file, 28 * 222, wrong)});
      test::write_text(run / file, good);
    }
}

}  // namespace
}  // namespace hlite
