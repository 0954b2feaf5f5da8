// _native: what the Python package `hugectr_lite` is made of. Objects here are thin: what is
// pleasant to use is written in Python (hugectr_lite/__init__.py).
//
// Long calls let other Python threads run, and look for Ctrl-C between iterations.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data_reader/data_identity.h"
#include "hugectr_lite/checkpoint/checkpoint.h"
#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/optimizer/lr_schedule.h"
#include "hugectr_lite/predict/array_batches.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/preparation/apply/table_batches.h"
#include "hugectr_lite/python/arrays.h"
#include "hugectr_lite/python/prepared_data.h"
#include "hugectr_lite/python/table.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/report/event_numbers.h"
#include "hugectr_lite/trainer/report/page.h"
#include "hugectr_lite/trainer/run/check.h"
#include "hugectr_lite/trainer/run/training_loop.h"
#include "hugectr_lite/trainer/tune/tuning.h"

namespace py = pybind11;

namespace hlite::python {
namespace {

using namespace py::literals;
using Floats = InputArray<float>;
using Doubles = InputArray<double>;
using Keys = InputArray<int64_t>;
using Changes = std::vector<std::string>;

// A config as Python has it: a path, or JSON of a dict.
using predict::ConfigText;

// The reader of such a config's files makes log(x + 1) of dense features.
bool reads_log_features(const config::TrainConfig& config) {
  return config.data.format->fixed_records && !config.data.float_dense;
}

// (key columns, number of the history or -1) of each slot.
py::list key_slots(const config::DataConfig& config) {
  const KeyLayout layout = config.key_layout();
  std::vector<int64_t> history(layout.hotness.size(), -1);
  for (const data::History& h : data::histories_of(config))
    std::fill_n(history.begin() + h.first_slot, h.slots, h.first_slot);
  py::list slots;
  for (size_t s = 0; s < history.size(); ++s)
    slots.append(py::make_tuple(layout.hotness[s], history[s]));
  return slots;
}

std::vector<std::string> names_of(const std::vector<data::DataIdentity::IdentityPart>& parts) {
  std::vector<std::string> names;
  for (const auto& part : parts) names.push_back(part.name);
  return names;
}

// Throws what Ctrl-C is in Python.
void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

[[noreturn]] void raise_keyboard_interrupt() {
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

predict::SampleArrays samples_of(const Floats& dense, const Keys& keys) {
  return {{}, dense.matrix(), keys.matrix()};
}

// Weights of samples, or nothing for None.
std::optional<Floats> weights_of(const py::object& weights) {
  if (weights.is_none()) return std::nullopt;
  return std::optional<Floats>(std::in_place, weights, "sample_weight");
}
std::span<const float> values_of(const std::optional<Floats>& weights) {
  return weights ? weights->values() : std::span<const float>();
}

// The inverse of trainer::score_of(), of probabilities that are 0 or 1 a large finite number.
float logit(float probability) {
  constexpr double kMin = 1e-7;
  const double p = std::clamp<double>(probability, kMin, 1 - kMin);
  return static_cast<float>(std::log(p / (1 - p)));
}

// An object that Python's threads use one at a time. One at a time is inside while others run
// Python; the same one may come back, where a signal's handler calls. A child that fork() made
// lacks the threads of what it got and would wait for them for ever: it may not call, and leaves
// the object to its end.
class OneAtATime {
 protected:
  class Inside {
   public:
    explicit Inside(OneAtATime& object) : lock_(object.mutex_) {
      if (object.is_forked())
        raise(
            "expected a call in the process that made the object, found one in a child of it, "
            "which has none of its threads: make it there, or start children by \"spawn\"");
    }

   private:
    const py::gil_scoped_release others_;
    const std::unique_lock<std::recursive_mutex> lock_;
  };
  [[nodiscard]] bool is_forked() const { return getpid() != maker_; }

  // (scores [samples] or [samples, tasks], present keys of each column, replaced ones):
  // run(batch, outputs) appends the outputs of a batch, score(logit) is the score of a logit.
  template <typename Run, typename Score>
  py::tuple predicted(predict::ArrayBatches& batches, int64_t tasks, const py::object& dense,
                      const py::object& keys, Run&& run, Score&& score) {
    const Floats dense_array(dense, "dense");
    const Keys key_array(keys, "keys");
    const auto samples = samples_of(dense_array, key_array);
    trainer::SampleOutputs outputs;
    predict::KeyCounts counts;
    {
      const Inside inside(*this);
      int64_t first = 0;
      do {
        check_signals();
        const data::HostBatch& batch = batches.fill(samples, first);
        if (batch.size > 0) run(batch, outputs);
        first += batch.size;
      } while (first < samples.keys.dim(0));
      counts = batches.counts();
    }
    std::vector<float>& logits = outputs.logits;
    std::transform(logits.begin(), logits.end(), logits.begin(), score);
    OutputArray scores{.shape = {samples.keys.dim(0)}};
    if (tasks > 1) scores.shape.push_back(tasks);
    scores.values = std::move(logits);
    return py::make_tuple(std::move(scores), std::move(counts.present), std::move(counts.replaced));
  }

 private:
  std::recursive_mutex mutex_;
  const pid_t maker_ = getpid();
};

// The numbers of an event by the names that they have in the metrics file.
template <typename Event>
py::dict named(const Event& event) {
  py::dict numbers;
  for (const auto& [name, value] : trainer::numbers_of(event)) numbers[name.c_str()] = value;
  if constexpr (requires { event.samples; }) numbers["samples"] = event.samples;  // an integer
  return numbers;
}
py::dict dict_of(const trainer::TrainEvent& event) { return named(event); }
py::dict dict_of(const trainer::EvalResult& result) {
  py::dict metrics = named(result);
  py::list tasks;
  for (const trainer::TaskResult& task : result.tasks) tasks.append(named(task));
  if (!tasks.empty()) metrics["tasks"] = std::move(tasks);
  return metrics;
}

// The events of a run as dicts, until they are taken.
class PyEvents : public trainer::RunRecord {
 public:
  void train(const trainer::TrainEvent& event) override { add("train", event.iter, event); }
  void eval(int64_t iter, const trainer::EvalResult& result) override { add("eval", iter, result); }
  void test(int64_t iter, const trainer::EvalResult& result) override { add("test", iter, result); }
  void progressive(int64_t iter, const std::string& file,
                   const trainer::EvalResult& result) override {
    add("progressive", iter, result);
    const py::gil_scoped_acquire gil;
    events_[py::len(events_) - 1]["file"] = file;
  }

  py::list take() { return std::exchange(events_, py::list()); }

 private:
  template <typename Event>
  void add(const char* kind, int64_t iter, const Event& event) {
    const py::gil_scoped_acquire gil;
    py::dict numbers("event"_a = kind, "iter"_a = iter);
    numbers.attr("update")(dict_of(event));
    events_.append(std::move(numbers));
  }

  py::list events_;
};

// The weights of a model as arrays by name: views into its own memory, which `owner` keeps, or
// copies from a GPU or of 16 bits.
py::dict arrays_of(const trainer::Model& model, const py::object& owner) {
  py::dict arrays;
  for (const TensorRef& t : trainer::weights_of(model)) {
    OutputArray array{.shape = {t.shape.begin(), t.shape.end()}};
    if (t.data != nullptr && t.dtype == DType::kF32) {
      array.data = t.data;
      array.owner = owner;
    } else {
      array.values.resize(static_cast<size_t>(t.size()));
      array.is_uint32 = t.dtype == DType::kU32;
      t.get(0, array.values);
    }
    arrays[t.name.c_str()] = std::move(array);
  }
  return arrays;
}

// (layer, table, slot of the data) of every slot of every embedding layer.
py::list slots_of(const trainer::Model& model) {
  py::list slots;
  for (const auto& layer : model.layers().embeddings) {
    for (const embedding::LookedUpSlot& of : layer->data_slots())
      slots.append(py::make_tuple(layer->name(), of.table, of.slot));
  }
  return slots;
}

class PyTrainer : OneAtATime {
 public:
  PyTrainer(const ConfigText& config, const Changes& changes, trainer::Options options)
      : config_(predict::load_config(config, changes)), options_(std::move(options)) {
    options_.quiet = true;
    trainer_ = std::make_unique<trainer::Trainer>(*config_, options_,
                                                  trainer::one_rank(*config_, options_));
    trainer_->start();
    loop_ = std::make_unique<trainer::TrainingLoop>(*trainer_, check_signals);
    auto events = std::make_unique<PyEvents>();
    events_ = events.get();
    trainer_->context().records.add(std::move(events));
  }
  ~PyTrainer() {
    if (!is_forked()) return;
    static_cast<void>(loop_.release());
    static_cast<void>(trainer_.release());
  }
  PyTrainer(const PyTrainer&) = delete;
  PyTrainer& operator=(const PyTrainer&) = delete;

  void step() {
    const Inside inside(*this);
    loop_->policy().use_last();
    trainer_->step();
    trainer_->check_loss();
  }
  void begin(std::optional<int64_t> iterations) {
    events_->take();  // left by a run that failed
    const Inside inside(*this);
    loop_->begin(iterations);
  }
  // The events up to the next stop, and whether training goes on after it.
  std::pair<py::list, bool> advance() {
    std::optional<trainer::EndReason> reason;
    {
      const Inside inside(*this);
      reason = loop_->advance();
    }
    if (reason == trainer::EndReason::kInterrupted) raise_keyboard_interrupt();
    return {events_->take(), !reason};
  }
  // Before finish(), in place of advance().
  void stop() { loop_->stop(); }
  [[nodiscard]] double train_loss() const { return loop_->train_loss(); }
  py::list finish() {
    {
      const Inside inside(*this);
      loop_->finish();
    }
    return events_->take();
  }
  // Returns the present and the replaced keys of each column, as predict() does.
  py::tuple step_on(const py::object& label, const py::object& dense, const py::object& keys,
                    const py::object& sample_weight) {
    const Floats label_array(label, "label"), dense_array(dense, "dense");
    const Keys key_array(keys, "keys");
    auto samples = samples_of(dense_array, key_array);
    samples.labels = label_array.matrix(true);
    const auto weights = weights_of(sample_weight);
    if (weights) samples.weights = weights->matrix(true);
    predict::ArrayBatches& batches = this->batches();
    predict::KeyCounts counts;
    {
      const Inside inside(*this);
      if (samples.keys.dim(0) < 1 || samples.keys.dim(0) > config_->solver.batchsize)
        raise<DataError>("keys: expected 1 to {} samples (solver.batchsize), found {}",
                         config_->solver.batchsize, samples.keys.dim(0));
      loop_->policy().use_last();
      trainer_->step(batches.fill(samples, 0));
      trainer_->check_loss();
      counts = batches.counts();
    }
    return py::make_tuple(std::move(counts.present), std::move(counts.replaced));
  }
  // Ctrl-C ends it early.
  py::dict evaluate() {
    std::optional<trainer::EvalResult> result;
    {
      const InterruptGuard interrupts;
      const Inside inside(*this);
      result = trainer_->evaluations().evaluate();
    }
    if (!result) raise_keyboard_interrupt();
    return dict_of(*result);
  }
  // Metrics of scores that a caller has: what evaluate() returns of its own data. With `decides`
  // they lead to what those would lead to (TrainingPolicy); second: whether training ends.
  std::pair<py::dict, bool> take_evaluation(const py::object& label, const py::object& score,
                                            bool decides, const py::object& sample_weight) {
    const Floats labels(label, "label"), scores(score, "score");
    const auto given = weights_of(sample_weight);
    const std::span<const float> weights = values_of(given);
    trainer::EvalResult result;
    result.samples = std::ssize(scores.values());
    std::vector<float> logits(scores.values().begin(), scores.values().end());
    const bool tasks = trainer_->model().layers().network->tasks() > 1;
    if (tasks) {
      std::transform(logits.begin(), logits.end(), logits.begin(), logit);
      result = trainer::metrics_of(trainer_->context().exec(), trainer_->model(),
                                   {std::move(logits),
                                    {labels.values().begin(), labels.values().end()},
                                    {weights.begin(), weights.end()},
                                    {}});
    } else if (predicts_values()) {
      result.loss =
          ops::mean_squared_error(trainer_->context().exec(), logits, labels.values(), weights);
    } else {
      std::transform(scores.values().begin(), scores.values().end(), logits.begin(), logit);
      result.auc = ops::auc(scores.values(), labels.values(), weights);
      result.loss = ops::log_loss(trainer_->context().exec(), logits, labels.values(), weights);
    }
    if (!tasks)
      result.more = metrics::take(trainer::further_metrics(trainer_->model()),
                                  {logits, labels.values(), weights, {}, result.loss});
    const Inside inside(*this);
    const bool end = decides && loop_->policy().apply(result).has_value();
    const py::gil_scoped_acquire gil;
    return {dict_of(result), end};
  }
  [[nodiscard]] bool predicts_values() {
    return trainer_->model().layers().network->predicts_values();
  }
  void use_best() {
    const Inside inside(*this);
    loop_->policy().use_best(/*for_good=*/false);
  }
  // The rates of all schedules follow: those of embedding layers are scaled alike.
  void set_learning_rate(float rate) {
    const Inside inside(*this);
    trainer::LearningRates& rates = trainer_->model().rates();
    const int64_t step = trainer_->iteration() + 1;
    const double scheduled = optimizer::learning_rate(config_->optimizer.schedule, step);
    if (!(scheduled > 0))
      raise<ConfigError>(
          "learning_rate: expected a schedule whose rate in iteration {} is above 0, found {}",
          step, scheduled);
    rates.set_scale(static_cast<float>(rate / scheduled));
  }
  // The config's rates, whatever evaluations have made of them.
  void restart_rates() {
    const Inside inside(*this);
    trainer_->model().rates().set_scale(1);
  }
  py::list embedding_slots() { return slots_of(trainer_->model()); }
  // The place of the training data's manifest, and the names of its key columns; empty: none.
  std::pair<std::string, std::vector<std::string>> prepared() {
    if (options_.without_data) return {};
    const auto entry = data::find_manifest_of(config_->resolve(config_->data.source));
    if (!entry) return {};
    return {entry->path, names_of(entry->manifest.identity().slots)};
  }
  py::tuple predict(const py::object& dense, const py::object& keys) {
    trainer::Model& model = trainer_->model();
    return predicted(
        batches(), model.layers().network->tasks(), dense, keys,
        [&](const auto& batch, auto& outputs) {
          model.evaluate({.batch = batch.size, .input = trainer::input_of(batch)});
          trainer::append_outputs(model, batch.size, outputs);
        },
        [&](float logit) { return trainer::score_of(model, logit); });
  }
  std::vector<std::string> key_columns() { return batches().columns(); }
  py::list key_slots() { return python::key_slots(config_->data); }
  [[nodiscard]] bool has_log_features() const {
    return !options_.without_data && reads_log_features(*config_);
  }
  void save(const std::string& directory) {
    const Inside inside(*this);
    loop_->policy().save(directory);
  }
  void export_weights(const std::string& path) {
    const Inside inside(*this);
    trainer_->saver().export_weights(path);
  }
  void weights_changed() {
    const Inside inside(*this);
    loop_->policy().take_weights();
    trainer::weights_changed(trainer_->model());
  }
  double batch_loss() {
    const Inside inside(*this);
    return trainer_->batch_loss();
  }
  double learning_rate() {
    const Inside inside(*this);
    return trainer_->model().rates().last_dense_rate();
  }
  py::dict weights(const py::object& self) { return arrays_of(trainer_->model(), self); }
  [[nodiscard]] trainer::Trainer& trainer() { return *trainer_; }
  [[nodiscard]] int64_t batch_size() const { return config_->solver.batchsize; }

 private:
  predict::ArrayBatches& batches() {
    if (!batches_)
      batches_ = std::make_unique<predict::ArrayBatches>(
          config_->data, trainer_->model().layers().slot_rows, trainer_->model().max_batch());
    return *batches_;
  }
  std::unique_ptr<config::TrainConfig> config_;
  trainer::Options options_;
  std::unique_ptr<trainer::Trainer> trainer_;
  std::unique_ptr<trainer::TrainingLoop> loop_;
  PyEvents* events_ = nullptr;  // owned by trainer_
  std::unique_ptr<predict::ArrayBatches> batches_;
};

class PyPredictor : OneAtATime {
 public:
  PyPredictor(const std::string& model, const ConfigText& config,
              const predict::ScoringOptions& options, int64_t batch)
      : model_(model),
        config_(predict::prediction_config(config, model, options.overrides, batch)),
        predictor_(std::make_unique<predict::Predictor>(
            *config_, predict::ModelWeights{.model = model}, options)),
        identity_(data::TrainedOn::parse(checkpoint::trained_on(model), model).identity),
        batches_(config_->data, predictor_->slot_rows(), predictor_->batch_size()) {}
  ~PyPredictor() {
    if (is_forked()) static_cast<void>(predictor_.release());
  }
  PyPredictor(const PyPredictor&) = delete;
  PyPredictor& operator=(const PyPredictor&) = delete;

  py::tuple predict(const py::object& dense, const py::object& keys) {
    return predicted(
        batches_, predictor_->tasks(), dense, keys,
        [&](const auto& batch, auto& outputs) { predictor_->run(batch, outputs); },
        [&](float logit) { return predictor_->score_of(logit); });
  }
  // The place of what csv_prep or criteo_prep wrote: `folder`, or "" for the checkpoint's own.
  [[nodiscard]] std::string preparation_folder(const std::string& folder) const {
    const std::string place = folder.empty() ? checkpoint::preparation_in(model_) : folder;
    if (place.empty())
      raise<ConfigError>(
          "{}: expected a checkpoint with its preparation (train --with-preparation), or prepared; "
          "found neither",
          model_);
    const std::string path = place + "/manifest.json";
    data::check_same_data(identity_, model_, data::Manifest::read(path).identity(), path,
                          data::OtherData::kRefuse);
    return place;
  }
  // `folder` may be removed afterwards. Returns its place.
  std::string open_preparation(const std::string& folder, bool has_label) {
    const Inside inside(*this);
    const std::string place = preparation_folder(folder);
    auto found = std::make_unique<prep::Preparation>(
        place, has_label ? prep::Labels::kThere : prep::Labels::kAbsent);
    preparation_ = std::move(found);
    return place;
  }
  // What a table has to have (inputs_of()). REQUIRES open_preparation().
  [[nodiscard]] py::list table_inputs() const {
    return inputs_of(preparation_->table_schema(), preparation_->header());
  }
  [[nodiscard]] int64_t table_width() const {
    return preparation_->table_schema().columns_needed();
  }
  // Scores of the rows of a table, whose columns are those of the training file; of each
  // categorical column how many values were there and how many of these unknown. REQUIRES
  // open_preparation().
  py::tuple predict_table(const py::list& columns) {
    const Table table(columns);
    trainer::SampleOutputs outputs;
    data::UnknownValues unknown(preparation_->slot_sizes().size());
    if (table.rows() > 0) {
      const Inside inside(*this);
      prep::TableBatches batches(*preparation_, table.columns(), table.rows(), config_->data,
                                 predictor_->slot_rows(), predictor_->batch_size(),
                                 predictor_->pool());
      for (;;) {
        check_signals();
        const data::HostBatch& batch = batches.next();
        if (batch.size == 0) break;
        predictor_->run(batch, outputs);
      }
      unknown = batches.unknown();
    }
    std::vector<float>& logits = outputs.logits;
    std::transform(logits.begin(), logits.end(), logits.begin(),
                   [&](float of) { return predictor_->score_of(of); });
    for (int64_t& missing : unknown.missing) missing = unknown.rows - missing;
    OutputArray scores{.shape = {std::ssize(logits)}};
    scores.values = std::move(logits);
    return py::make_tuple(std::move(scores), std::move(unknown.missing),
                          std::move(unknown.unknown));
  }
  py::dict weights(const py::object& self) { return arrays_of(predictor_->model(), self); }
  py::list embedding_slots() { return slots_of(predictor_->model()); }
  std::vector<std::string> key_columns() { return batches_.columns(); }
  py::list key_slots() { return python::key_slots(config_->data); }
  // {array: names of its columns} where the training data's manifest had them.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> column_names() const {
    return {{"dense", names_of(identity_.dense)}, {"keys", names_of(identity_.slots)}};
  }
  [[nodiscard]] bool has_log_features() const { return reads_log_features(*config_); }

 private:
  const std::string model_;
  std::unique_ptr<config::TrainConfig> config_;
  std::unique_ptr<predict::Predictor> predictor_;
  data::DataIdentity identity_;
  predict::ArrayBatches batches_;
  std::unique_ptr<prep::Preparation> preparation_;
};

template <typename Options = trainer::Options>
Options options_of(const std::string& config, const Changes& changes, const std::string& device,
                   int threads) {
  Options options;
  options.config = config;
  options.overrides = changes;
  if (device != "auto") options.device = config::device_choice(device);
  constexpr int kMaxThreads = 4096;
  if (threads < 0 || threads > kMaxThreads)
    raise<ConfigError>("threads: expected an integer in [0, {}], found {}", kMaxThreads, threads);
  options.threads = threads;
  return options;
}

// The config that trials have found, as JSON text, and the trials.
py::tuple tune(const std::string& path, const Changes& changes, const std::string& device,
               int threads, int64_t trials, bool progress) {
  trainer::Options options = options_of(path, changes, device, threads);
  options.tune = trials;
  const auto config = predict::load_config({path, ""}, changes);
  trainer::Tuning tuning;
  {
    const py::gil_scoped_release others;
    tuning = trainer::tune(*config, options, [&](const std::string& line) {
      if (progress) fmt::print(stderr, "{}\n", line);
    });
  }
  if (tuning.interrupted) raise_keyboard_interrupt();
  py::list all;
  for (const trainer::Trial& trial : tuning.trials) {
    py::dict one;
    one["changes"] = trial.changes;
    one["value"] = trial.value;
    one["iteration"] = trial.best_iteration;
    all.append(one);
  }
  return py::make_tuple(tuning.config, all);
}

// Later ones are tried first.
void define_errors(py::module_& module) {
  const auto& error = py::register_exception<Error>(module, "Error", PyExc_RuntimeError);
  py::register_exception<ConfigError>(module, "ConfigError", error);
  py::register_exception<DataError>(module, "DataError", error);
  py::register_exception<DeviceError>(module, "DeviceError", error);
}

void define_trainer(py::module_& module) {
  py::class_<PyTrainer>(module, "Trainer")
      .def(py::init([](const std::string& path, const std::string& text, const Changes& changes,
                       const std::string& device, int threads, const std::string& init,
                       const std::string& resume, bool without_data, bool allow_other_data,
                       bool with_preparation, bool grow) {
        trainer::Options options = options_of(path, changes, device, threads);
        if (!init.empty() && !resume.empty())
          raise<ConfigError>("expected init or resume, found both: \"{}\" and \"{}\"", init,
                             resume);
        options.init = init;
        options.resume = resume;
        options.without_data = without_data;
        options.allow_other_data = allow_other_data;
        options.with_preparation = with_preparation;
        if (grow && resume.empty())
          raise<ConfigError>("grow: expected resume, a checkpoint to go on from, found none");
        options.grow = options.from_start = grow;
        return std::make_unique<PyTrainer>(ConfigText{path, text}, changes, std::move(options));
      }))
      .def("step", &PyTrainer::step)
      .def("step_on", &PyTrainer::step_on)
      .def("evaluate", &PyTrainer::evaluate)
      .def("begin", &PyTrainer::begin)
      .def("advance", &PyTrainer::advance)
      .def("stop", &PyTrainer::stop)
      .def_property_readonly("train_loss", &PyTrainer::train_loss)
      .def("finish", &PyTrainer::finish)
      .def("predict", &PyTrainer::predict)
      .def_property_readonly("key_columns", &PyTrainer::key_columns)
      .def_property_readonly("key_slots", &PyTrainer::key_slots)
      .def_property_readonly("reads_log_features", &PyTrainer::has_log_features)
      .def("weights", [](const py::object& self) { return self.cast<PyTrainer&>().weights(self); })
      .def("weights_changed", &PyTrainer::weights_changed)
      .def("save", &PyTrainer::save)
      .def("export_weights", &PyTrainer::export_weights)
      .def_property_readonly("batch_loss", &PyTrainer::batch_loss)
      .def_property("learning_rate", &PyTrainer::learning_rate, &PyTrainer::set_learning_rate)
      .def("restart_rates", &PyTrainer::restart_rates)
      .def("take_evaluation", &PyTrainer::take_evaluation)
      .def("use_best", &PyTrainer::use_best)
      .def_property_readonly("predicts_values", &PyTrainer::predicts_values)
      .def_property_readonly("batch_size", &PyTrainer::batch_size)
      .def_property_readonly("seed", [](PyTrainer& t) { return t.trainer().context().seed; })
      .def_property_readonly("embedding_slots", &PyTrainer::embedding_slots)
      .def_property_readonly("prepared", &PyTrainer::prepared)
      .def_property_readonly("iteration", [](PyTrainer& t) { return t.trainer().iteration(); })
      .def_property_readonly("last_iteration",
                             [](PyTrainer& t) { return t.trainer().context().last_iteration; })
      .def_property_readonly("samples", [](PyTrainer& t) { return t.trainer().context().samples; });
}

void define_prediction(py::module_& module) {
  py::class_<PyPredictor>(module, "Predictor")
      .def(py::init([](const std::string& model, const std::string& path, const std::string& text,
                       const Changes& changes, const std::string& device, int threads,
                       int64_t batch) {
        return std::make_unique<PyPredictor>(
            model, ConfigText{path, text},
            options_of<predict::ScoringOptions>(path, changes, device, threads), batch);
      }))
      .def("predict", &PyPredictor::predict)
      .def("open_preparation", &PyPredictor::open_preparation)
      .def("preparation_folder", &PyPredictor::preparation_folder)
      .def("weights",
           [](const py::object& self) { return self.cast<PyPredictor&>().weights(self); })
      .def_property_readonly("embedding_slots", &PyPredictor::embedding_slots)
      .def_property_readonly("table_inputs", &PyPredictor::table_inputs)
      .def_property_readonly("table_width", &PyPredictor::table_width)
      .def("predict_table", &PyPredictor::predict_table)
      .def_property_readonly("key_columns", &PyPredictor::key_columns)
      .def_property_readonly("key_slots", &PyPredictor::key_slots)
      .def_property_readonly("column_names", &PyPredictor::column_names)
      .def_property_readonly("reads_log_features", &PyPredictor::has_log_features);
  module.def("auc",
             [](const py::object& label, const py::object& score, const py::object& sample_weight) {
               const Doubles labels(label, "label"), scores(score, "score");
               if (sample_weight.is_none()) return ops::auc(scores.values(), labels.values());
               const Doubles weights(sample_weight, "sample_weight");
               return ops::auc(scores.values(), labels.values(), weights.values());
             });
  module.def("tune", &tune);
  module.def("check", [](const std::string& path, const std::string& text, const Changes& changes) {
    return trainer::check_report(*predict::load_config({path, text}, changes),
                                 options_of(path, changes, "auto", 0));
  });
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = kVersion;
  log::set_level(log::Level::kWarning);
  py::class_<OutputArray>(module, "Array", py::buffer_protocol()).def_buffer(&OutputArray::buffer);
  define_errors(module);
  define_trainer(module);
  define_prediction(module);
  define_prepared_data(module);
  module.def("html_page", [](const std::string& page) {
    return trainer::html_page(trainer::Json::parse(page));
  });
}

}  // namespace hlite::python
