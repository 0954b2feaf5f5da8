// Scores requests of all connections, put together into batches, on threads of its own.
//
// A sample's score is bit for bit that of an evaluation of `train`, whatever it was batched with:
// evaluation computes a sample from its own values only (ops/row_product.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/predict/sample_rows.h"
#include "hugectr_lite/preparation/apply/text_rows.h"
#include "hugectr_lite/serve/inference_stats.h"
#include "hugectr_lite/serve/server_metrics.h"

namespace hlite::serve {

using Clock = std::chrono::steady_clock;

struct ScorerOptions {
  std::string model;       // a checkpoint's directory or FILE.safetensors
  std::string delta = {};  // a chain of deltas from the model's last weights
  int64_t until = 0;       // iteration of the last link that is used
  predict::ScoringOptions run = {};
  bool verify = true;  // weights of a checkpoint by their checksum
  // Samples scored at once. A larger batch is no faster on a CPU, and its first request waits for
  // its last.
  int64_t max_batch = 256;
  int64_t max_samples = 65'536;            // of a request
  int64_t max_queue = 8192;                // samples that may wait
  std::chrono::microseconds max_delay{0};  // that a batch waits for more samples
};

// Samples as rows of a batch.
struct SampleBlock {
  int64_t size = 0;
  std::vector<float> dense;    // [size, dense_dim]
  std::vector<uint32_t> keys;  // [size, key columns]
};

// The result of a request: scores [samples, tasks], or why there are none (503: the file of the
// weights has changed).
struct ScoreResult {
  int status = 200;
  std::string error = {};
  std::vector<float> scores = {};
  RequestTimes times = {};  // where there are scores
};

struct ScoreJob {
  SampleBlock samples;
  Clock::time_point received, deadline;
  Clock::time_point queued = {};          // since when it waits: set by submit()
  std::function<void(ScoreResult)> done;  // called once, on the scoring thread
  bool counted = true;                    // in the metrics
};

class Scorer {
 public:
  // Loads the model. Throws ConfigError, DataError, DeviceError. `metrics` must outlive it.
  Scorer(const ScorerOptions& options, const ModelMetrics& metrics);
  // Scores what is queued, then ends.
  ~Scorer();
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  // Checks samples and turns them into rows. Throws DataError; counts unknown keys. May be called
  // by several threads.
  [[nodiscard]] SampleBlock rows_of(const predict::SampleArrays& samples) const;
  // The same from lines of text, as preparation did it to the training data.
  // REQUIRES takes_text().
  [[nodiscard]] SampleBlock rows_of(std::span<const std::string> lines);
  [[nodiscard]] bool takes_text() const { return text_ != nullptr; }
  // Returns true if submit() would refuse any job, so that an overloaded server need not parse
  // requests.
  [[nodiscard]] bool full();
  // False where the queue is full; `job` is then as it was.
  [[nodiscard]] bool submit(ScoreJob& job);
  // Predictor's.
  void expect_unchanged() const { predictor_->expect_unchanged(); }
  void verify() const { predictor_->verify(); }
  // From now on no batch waits for more samples: none are to come.
  void drain();

  [[nodiscard]] const config::DataConfig& data() const { return rows_->config(); }
  [[nodiscard]] int64_t key_columns() const { return rows_->key_columns(); }
  [[nodiscard]] std::vector<int64_t> table_rows() const { return rows_->table_rows(); }
  [[nodiscard]] int64_t tasks() const { return tasks_; }
  // A line of text that the model takes, and the names of its columns. REQUIRES takes_text().
  [[nodiscard]] prep::ExampleLine example() const { return preparation_->example(); }
  // Batches of counted jobs that the network has computed.
  [[nodiscard]] int64_t executions() const { return executions_; }

 private:
  struct Loaded;
  void work(const std::function<void(std::exception_ptr)>& loaded);
  std::unique_ptr<Loaded> load();
  void open_preparation(const config::DataConfig& config, std::span<const int64_t> slot_rows);
  [[nodiscard]] std::vector<ScoreJob> take_jobs();
  void score(Loaded& loaded, std::vector<ScoreJob> jobs);
  Clock::duration evaluate(Loaded& loaded, const std::vector<ScoreJob>& jobs);
  void count(const ScoreJob& job, const ScoreResult& result, Clock::time_point start,
             Clock::time_point end);

  const ScorerOptions options_;
  const ModelMetrics metrics_;
  std::unique_ptr<const predict::SampleRows> rows_;
  // Set if the checkpoint has a preparation.
  std::unique_ptr<const prep::Preparation> preparation_;
  std::unique_ptr<prep::TextRows> text_;
  std::mutex text_mutex_;                          // TextRows are one thread's at a time
  const predict::Predictor* predictor_ = nullptr;  // lives as long as the thread
  int64_t tasks_ = 1;
  std::atomic<int64_t> executions_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<ScoreJob> queue_;
  int64_t queued_ = 0;  // samples
  bool stop_ = false, draining_ = false;
  std::thread thread_;
};

}  // namespace hlite::serve
