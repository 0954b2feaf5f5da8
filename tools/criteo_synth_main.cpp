#include <cstdio>
#include <ranges>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/core/number_option.h"
#include "hugectr_lite/core/parse_number.h"
#include "hugectr_lite/core/stopwatch.h"
#include "hugectr_lite/preparation/io/command_line.h"
#include "hugectr_lite/preparation/synth/criteo_synth.h"
#include "hugectr_lite/preparation/synth/history_synth.h"

namespace hlite::prep {
namespace {

// Petabytes of text: a slip.
constexpr int64_t kMaxRows = 1'000'000'000'000;

struct SynthArguments {
  CriteoSynthOptions options;
  std::string cards, like;
  std::optional<int64_t> test_rows, days, history;
  ColumnOptions& columns() { return options.model.columns; }
};

// A name, or comma-separated whole numbers.
std::vector<int64_t> parse_cardinalities(const std::string& text) {
  if (text.find_first_of("0123456789") == std::string::npos) {
    return named_cardinalities(text);
  }
  std::vector<int64_t> cards;
  for (const auto part : std::views::split(std::string_view(text), ',')) {
    const auto value = parse_number<int64_t>(std::string_view(part.begin(), part.end()));
    if (!value) raise<ConfigError>("--cards: expected a name or numbers, found \"{}\"", text);
    cards.push_back(*value);
  }
  return cards;
}

// Returns the option of histories.
CLI::Option* add_file_options(CLI::App& app, SynthArguments& args) {
  app.add_option("--train,--rows", args.options.train_rows, "Rows of the training file")
      ->check(whole_number(0, kMaxRows))
      ->capture_default_str();
  auto* test = app.add_option("--test", args.test_rows, "Rows of the test file; 0: no such file")
                   ->check(whole_number(0, kMaxRows))
                   ->default_str(std::to_string(args.options.test_rows));
  auto* days = app.add_option("--days", args.days,
                              "Instead of these two, a file PREFIX.day_00.tsv, ... of --train rows "
                              "for each of so many days")
                   ->check(whole_number(1, 10000))
                   ->excludes(test);
  app.add_option_function<std::string>(
         "--turnover",
         [&args](const std::string& text) {
           args.options.model.turnover = parse_share("--turnover", text);
         },
         "Share of each column's categories that new ones replace on each day, as 0.1 or 10%")
      ->needs(days)
      ->default_str("0");
  auto* format =
      app.add_option_function<std::string>(
             "--format",
             [&args](const std::string& name) {
               args.options.format = name == "raw" ? SynthFormat::kRaw : SynthFormat::kTsv;
             },
             "tsv: Criteo's text; raw: PREFIX.train.bin, PREFIX.test.bin and PREFIX.manifest.json, "
             "ready for train")
          ->check(CLI::IsMember({"tsv", "raw"}))
          ->default_str("tsv");
  auto* history =
      app.add_option("--history", args.history,
                     "Instead of Criteo's columns: a user, an item with its category, and the "
                     "user's last so many items, which the label depends on; PREFIX.train.txt, "
                     "PREFIX.test.txt and PREFIX.histories.json, in Norm format")
          ->check(whole_number(1))
          ->excludes(days)
          ->excludes(format);
  app.add_option("--out", args.options.out, "PREFIX of the files written")->required();
  app.add_flag("--force", args.options.force, "Replace all files of this PREFIX");
  app.add_option("--seed", args.columns().seed, "Same seed and options: same files")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--threads", args.options.threads, "CPU threads; 0: all")
      ->check(whole_number(0, kMaxThreads))
      ->capture_default_str();
  return history;
}

void add_column_options(CLI::App& app, SynthArguments& args, CLI::Option* history) {
  app.add_option("--like", args.like,
                 "criteo: missing shares, integers and the skew of each column as in Criteo's "
                 "data, click rate 0.2566, cardinalities kaggle")
      ->check(CLI::IsMember({"criteo"}))
      ->excludes(history);
  app.add_option("--cards", args.cards,
                 "Categories of the 26 columns: demo (default), kaggle, terabyte or 26 numbers; "
                 "with --history users, items and their categories [1000,2000,50]");
  app.add_option("--cap", args.columns().cap, "Upper bound on each of them")
      ->check(whole_number(1))
      ->excludes(history);
}

void log_rate(int64_t rows, double seconds) {
  log::info("{} rows in {:.2f} s, {:.0f} rows/s", rows, seconds,
            static_cast<double>(rows) / seconds);
}

void run_history(const SynthArguments& args) {
  const auto start = Clock::now();
  HistorySynthOptions options;
  options.model.max_len = *args.history;
  options.model.seed = args.options.model.columns.seed;
  if (!args.cards.empty()) {
    const std::vector<int64_t> cards = parse_cardinalities(args.cards);
    if (cards.size() != 3)
      raise<ConfigError>("--cards: expected users, items and categories, found \"{}\"", args.cards);
    options.model.users = cards[0], options.model.items = cards[1];
    options.model.categories = cards[2];
  }
  options.train_rows = args.options.train_rows;
  options.test_rows = args.test_rows.value_or(options.test_rows);
  options.out = args.options.out;
  options.force = args.options.force;
  options.threads = args.options.threads;
  options.progress = true;
  const HistorySynthResult result = history_synth(options);
  const HistoryScores& scores = options.test_rows > 0 ? result.test : result.train;
  std::printf(
      "%s rows %lld, label rate %.5f\nBayes AUC %.5f, log loss %.5f (constant prediction: %.5f)\n"
      "without the history: Bayes AUC %.5f, log loss %.5f\n",
      options.test_rows > 0 ? "test" : "training", static_cast<long long>(scores.seeing.rows),
      scores.seeing.label_rate, scores.seeing.bayes_auc, scores.seeing.bayes_log_loss,
      scores.seeing.base_log_loss, scores.blind.bayes_auc, scores.blind.bayes_log_loss);
  log_rate(options.train_rows + options.test_rows, seconds_since(start));
}

void run(SynthArguments& args) {
  if (args.history) return run_history(args);
  const auto start = Clock::now();
  CriteoSynthOptions& options = args.options;
  ColumnOptions& columns = args.columns();
  if (!args.like.empty()) {
    columns.profile = criteo_profile();
    options.model.click_rate = CriteoProfile::kClickRate;
  }
  if (args.cards.empty()) args.cards = columns.profile ? "kaggle" : "demo";
  columns.cards = parse_cardinalities(args.cards);
  options.progress = true;
  options.by_day = args.days.has_value();
  options.model.days = args.days.value_or(1);
  options.test_rows = options.by_day ? 0 : args.test_rows.value_or(options.test_rows);
  const SynthResult result = criteo_synth(options);
  const double seconds = seconds_since(start);
  if (options.test_rows > 0) {
    const SynthScores& scores = result.test;
    std::printf(
        "test rows %lld, label rate %.5f\nBayes AUC %.5f, log loss %.5f (constant prediction: "
        "%.5f)\n",
        static_cast<long long>(scores.rows), scores.label_rate, scores.bayes_auc,
        scores.bayes_log_loss, scores.base_log_loss);
  }
  for (size_t day = 0; day < result.days.size(); ++day) {
    const SynthScores& scores = result.days[day];
    std::printf("day %zu: label rate %.5f, Bayes AUC %.5f, log loss %.5f (constant: %.5f)\n", day,
                scores.label_rate, scores.bayes_auc, scores.bayes_log_loss, scores.base_log_loss);
  }
  log_rate(options.model.days * options.train_rows + options.test_rows, seconds);
}

}  // namespace
}  // namespace hlite::prep

int main(int argc, char** argv) {
  using namespace hlite;
  prep::SynthArguments args;
  const prep::ToolDescription description{
      "criteo_synth",
      "Writes files in the format of Criteo's click logs with planted structure: labels depend on "
      "single categories, on pairs of categories and on the integers. Prints the AUC and the log "
      "loss of the true probabilities on the test rows: no model can do better. With --history "
      "labels depend on users' histories, and the best without these is printed too.",
      "  criteo_synth --out demo/synth\n"
      "  criteo_synth --train 5000000 --test 500000 --cards kaggle --cap 100000 --out big\n"
      "  criteo_synth --train 10000000 --like criteo --format raw --out like\n"
      "  criteo_synth --days 10 --turnover 10% --train 200000 --out demo/daily\n"
      "  criteo_synth --history 50 --train 400000 --out demo/histories\n"};
  return prep::run_tool(
      argc, argv, description,
      [&](CLI::App& app) {
        prep::add_column_options(app, args, prep::add_file_options(app, args));
      },
      [&] { prep::run(args); });
}
