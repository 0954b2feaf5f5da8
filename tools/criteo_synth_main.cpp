#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "tools/command_line.h"
#include "tools/criteo_synth.h"

namespace {

// A name, or comma-separated whole numbers.
std::vector<int64_t> parse_cardinalities(const std::string& text) {
  if (text.find_first_of("0123456789") == std::string::npos) {
    return hlite::tools::named_cardinalities(text);
  }
  std::vector<int64_t> cards;
  for (const char *p = text.data(), *end = p + text.size();; ++p) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(p, end, value);
    if (error != std::errc() || (next != end && *next != ',')) {
      hlite::raise<hlite::ConfigError>("--cards: expected a name or numbers, found \"{}\"", text);
    }
    cards.push_back(value);
    p = next;
    if (p == end) return cards;
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace hlite;
  tools::CriteoSynthOptions options;
  tools::PlantedOptions& model = options.model;
  std::string cards = "demo";
  int64_t cap = 0;
  const tools::ToolDescription description{
      "criteo_synth",
      "Writes files in the format of Criteo's click logs with planted structure: labels depend on "
      "single categories, on pairs of categories and on the integers. Prints the AUC and the log "
      "loss of the true probabilities on the test rows: no model can do better.",
      "  criteo_synth --out demo/synth\n"
      "  criteo_synth --train 5000000 --test 500000 --cards kaggle --cap 100000 --out big\n"};
  return tools::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        app.add_option("--train,--rows", options.train_rows, "Rows of PREFIX.train.tsv")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_option("--test", options.test_rows, "Rows of PREFIX.test.tsv; 0: no such file")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_option("--out", options.out, "PREFIX of the files written")->capture_default_str();
        app.add_option("--seed", model.seed, "Same seed and options: same files")
            ->capture_default_str();
        app.add_option("--threads", options.threads, "CPU threads; 0: all")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_option("--cards", cards,
                       "Categories of the 26 columns: demo, kaggle, terabyte or 26 numbers")
            ->capture_default_str();
        app.add_option("--cap", cap, "Upper bound on each of them; 0: none")
            ->check(CLI::NonNegativeNumber)
            ->capture_default_str();
        app.add_option("--zipf", model.zipf, "Exponent of the categories' Zipf law")
            ->capture_default_str();
        app.add_option("--missing", model.missing, "Mean share of missing values")
            ->capture_default_str();
        app.add_option("--fields", model.fields, "Columns that take part in interactions")
            ->capture_default_str();
        app.add_option("--pairs", model.pairs, "Interacting pairs among them")
            ->capture_default_str();
        app.add_option("--dim", model.dim, "Dimension of the hidden vectors")
            ->capture_default_str();
        app.add_option("--share-linear", model.share_linear,
                       "Share of the logit's variance owed to single categories")
            ->capture_default_str();
        app.add_option("--share-pairwise", model.share_pairwise, "... to pairs of categories")
            ->capture_default_str();
        app.add_option("--share-dense", model.share_dense, "... to the integers")
            ->capture_default_str();
        app.add_option("--auc", model.auc, "AUC of the true probabilities to aim at")
            ->capture_default_str();
        app.add_option("--ctr", model.click_rate, "Share of label 1 to aim at")
            ->capture_default_str();
      },
      [&] {
        const auto start = std::chrono::steady_clock::now();
        model.cards = parse_cardinalities(cards);
        if (cap > 0) {
          for (int64_t& card : model.cards) card = std::min(card, cap);
        }
        const tools::SynthScores scores = tools::criteo_synth(options);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (options.test_rows > 0) {
          std::printf(
              "test rows %lld, label rate %.5f\nBayes AUC %.5f, log loss %.5f (constant "
              "prediction: %.5f)\n",
              static_cast<long long>(scores.rows), scores.label_rate, scores.bayes_auc,
              scores.bayes_log_loss, scores.base_log_loss);
        }
        const int64_t rows = options.train_rows + options.test_rows;
        log::info("{} rows in {:.2f} s, {:.0f} rows/s", rows, seconds,
                  static_cast<double>(rows) / seconds);
      });
}
