// _native: what the Python package `hugectr_lite` is made of. Objects here are thin: what is
// pleasant to use is written in Python (hugectr_lite/__init__.py).
//
// Long calls let other Python threads run, and look for Ctrl-C between iterations.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hugectr_lite/config/train_config.h"
#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/interrupt.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/ops/metrics.h"
#include "hugectr_lite/predict/array_batches.h"
#include "hugectr_lite/predict/prediction_config.h"
#include "hugectr_lite/predict/predictor.h"
#include "hugectr_lite/trainer/model/model_results.h"
#include "hugectr_lite/trainer/model/model_tensors.h"
#include "hugectr_lite/trainer/run/check.h"
#include "hugectr_lite/trainer/run/trainer.h"

namespace py = pybind11;

namespace hlite::python {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Keys = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Changes = std::vector<std::string>;

// A config as Python has it: a path, or JSON of a dict.
using predict::ConfigText;

// Views of two-dimensional arrays; a list of labels stands for a column.
template <typename Array>
auto matrix(const Array& array, const char* name) {
  using T = std::remove_pointer_t<decltype(array.data())>;
  if (array.ndim() != 2 && !(array.ndim() == 1 && std::string(name) == "label"))
    raise<DataError>("{}: expected an array of 2 dimensions, found {}", name, array.ndim());
  return Matrix<T>(array.data(), array.shape(0), array.ndim() == 2 ? array.shape(1) : 1);
}
predict::SampleArrays samples_of(const std::optional<Floats>& label, const Floats& dense,
                                 const Keys& keys) {
  predict::SampleArrays samples;
  samples.dense = matrix(dense, "dense");
  samples.keys = matrix(keys, "keys");
  if (label) samples.labels = matrix(*label, "label");
  return samples;
}

// Throws what Ctrl-C is in Python.
void look_for_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

Floats scores_of(std::vector<float> logits) {
  Floats scores(static_cast<py::ssize_t>(logits.size()));
  std::transform(logits.begin(), logits.end(), scores.mutable_data(), predict::probability);
  return scores;
}

// What Python's threads work on. One at a time is inside while others run Python; the same one may
// come back, where a signal's handler calls. A child that fork() made lacks the threads of what it
// got and would wait for them for ever: it may not call, and leaves the object to its end.
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

  // The scores of all samples: run(batch, logits, labels) appends those of a batch.
  template <typename Run>
  Floats predicted(predict::ArrayBatches& batches, const Floats& dense, const Keys& keys,
                   Run&& run) {
    std::vector<float> logits, labels;
    {
      const auto samples = samples_of({}, dense, keys);
      const Inside inside(*this);
      for (int64_t first = 0; first < samples.keys.dim(0);) {
        look_for_signals();
        const data::HostBatch& batch = batches.fill(samples, first);
        run(batch, logits, labels);
        first += batch.size;
      }
    }
    return scores_of(std::move(logits));
  }

 private:
  std::recursive_mutex mutex_;
  const pid_t maker_ = getpid();
};

py::dict metrics_of(const trainer::EvalResult& result) {
  py::dict metrics;
  metrics["auc"] = result.auc;
  metrics["loss"] = result.loss;
  metrics["samples"] = result.samples;
  for (const auto& [name, value] : result.more) metrics[name.c_str()] = value;
  return metrics;
}

class PyTrainer : OneAtATime {
 public:
  PyTrainer(const ConfigText& config, const Changes& changes, trainer::Options options)
      : config_(predict::load_config(config, changes)), options_(std::move(options)) {
    options_.quiet = true;
    trainer_ = std::make_unique<trainer::Trainer>(*config_, options_,
                                                  trainer::one_rank(*config_, options_));
    trainer_->start();
  }
  ~PyTrainer() {
    if (is_forked()) static_cast<void>(trainer_.release());
  }
  PyTrainer(const PyTrainer&) = delete;
  PyTrainer& operator=(const PyTrainer&) = delete;

  void step(int64_t iterations) {
    const Inside inside(*this);
    for (int64_t i = 0; i < iterations; ++i) {
      look_for_signals();
      trainer_->step();
    }
    trainer_->check_loss();
  }
  void step_on(const Floats& label, const Floats& dense, const Keys& keys) {
    const auto samples = samples_of(label, dense, keys);
    const Inside inside(*this);
    if (samples.keys.dim(0) < 1 || samples.keys.dim(0) > config_->solver.batchsize)
      raise<DataError>("keys: expected 1 to {} samples (solver.batchsize), found {}",
                       config_->solver.batchsize, samples.keys.dim(0));
    trainer_->step(batches().fill(samples, 0));
    trainer_->check_loss();
  }
  py::dict evaluate() { return metrics_of(measured()); }
  // The metrics, and by what they end training: "target", "early_stop" or "".
  std::pair<py::dict, std::string> evaluate_and_heed() {
    const trainer::EvalResult result = measured();
    const bool stop = trainer_->heed(result);
    const auto& target = config_->solver.auc_target;
    const bool reached = target && result.auc && *result.auc >= *target;
    return {metrics_of(result), reached ? "target" : stop ? "early_stop" : ""};
  }
  // What follows training as the config says: the best weights, metrics over test_source.
  std::optional<py::dict> finish() {
    if (config_->solver.evaluation.early_stop) trainer_->restore_best();
    if (config_->data.test_source.empty() || options_.without_data) return std::nullopt;
    std::optional<trainer::EvalResult> result;
    {
      const Inside inside(*this);
      result = trainer_->test();
    }
    return metrics_of(*result);
  }
  // Iterations between two evaluations; 0: none.
  [[nodiscard]] int64_t eval_interval() const {
    const auto& solver = config_->solver;
    if (options_.without_data || solver.evaluation.every_epochs == 0) return solver.eval_interval;
    return solver.evaluation.every_epochs * trainer_->epoch_iterations();
  }
  Floats predict(const Floats& dense, const Keys& keys) {
    return predicted(batches(), dense, keys, [&](const auto& batch, auto& logits, auto& labels) {
      trainer::Model& model = trainer_->model();
      model.evaluate({.batch = batch.size, .input = trainer::input_of(batch)});
      trainer::append_outputs(model, batch.size, logits, labels);
    });
  }
  void save(const std::string& directory) {
    const Inside inside(*this);
    trainer_->save(directory);
  }
  void export_weights(const std::string& path) {
    const Inside inside(*this);
    trainer_->export_weights(path);
  }
  void weights_changed() {
    const Inside inside(*this);
    trainer::weights_changed(trainer_->model());
  }
  double loss() {
    const Inside inside(*this);
    return trainer_->loss();
  }
  double learning_rate() {
    const Inside inside(*this);
    return trainer_->learning_rate();
  }
  // Arrays by name: views into the model's own memory, or copies from a GPU.
  py::dict weights(const py::object& self) {
    py::dict arrays;
    for (const TensorRef& t : trainer::weights_of(trainer_->model())) {
      const std::vector<py::ssize_t> shape(t.shape.begin(), t.shape.end());
      if (t.data != nullptr && t.dtype == DType::kF32) {
        arrays[t.name.c_str()] = py::array_t<float>(shape, t.data, self);
        continue;
      }
      py::array_t<float> copy(shape);
      t.get(0, {copy.mutable_data(), static_cast<size_t>(t.size())});
      arrays[t.name.c_str()] = t.dtype == DType::kU32 ? copy.attr("view")("uint32") : copy;
    }
    return arrays;
  }
  [[nodiscard]] trainer::Trainer& trainer() { return *trainer_; }

 private:
  // Ctrl-C ends an evaluation early.
  trainer::EvalResult measured() {
    std::optional<trainer::EvalResult> result;
    {
      const InterruptGuard interrupts;
      const Inside inside(*this);
      result = trainer_->evaluate();
    }
    if (result) return *result;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  predict::ArrayBatches& batches() {
    if (!batches_)
      batches_ = std::make_unique<predict::ArrayBatches>(
          config_->data, trainer_->model().layers().slot_rows, trainer_->model().max_batch());
    return *batches_;
  }
  std::unique_ptr<config::TrainConfig> config_;
  trainer::Options options_;
  std::unique_ptr<trainer::Trainer> trainer_;
  std::unique_ptr<predict::ArrayBatches> batches_;
};

class PyPredictor : OneAtATime {
 public:
  PyPredictor(const std::string& model, const ConfigText& config, trainer::Options options,
              int64_t batch)
      : config_(predict::prediction_config(config, model, options.overrides, batch)),
        predictor_(std::make_unique<predict::Predictor>(*config_, model, options)),
        batches_(config_->data, predictor_->slot_rows(), predictor_->batch_size()) {}
  ~PyPredictor() {
    if (is_forked()) static_cast<void>(predictor_.release());
  }
  PyPredictor(const PyPredictor&) = delete;
  PyPredictor& operator=(const PyPredictor&) = delete;

  Floats predict(const Floats& dense, const Keys& keys) {
    return predicted(batches_, dense, keys, [&](const auto& batch, auto& logits, auto& labels) {
      predictor_->run(batch, logits, labels);
    });
  }

 private:
  std::unique_ptr<config::TrainConfig> config_;
  std::unique_ptr<predict::Predictor> predictor_;
  predict::ArrayBatches batches_;
};

trainer::Options options_of(const std::string& config, const Changes& changes,
                            const std::string& device, int threads) {
  trainer::Options options;
  options.config = config;
  options.overrides = changes;
  if (device != "auto") options.device = config::device_choice(device);
  constexpr int kMostThreads = 4096;
  if (threads < 0 || threads > kMostThreads)
    raise<ConfigError>("threads: expected an integer in [0, {}], found {}", kMostThreads, threads);
  options.threads = threads;
  return options;
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
                       const std::string& resume, bool without_data) {
        trainer::Options options = options_of(path, changes, device, threads);
        if (!init.empty() && !resume.empty())
          raise<ConfigError>("expected init or resume, found both: \"{}\" and \"{}\"", init,
                             resume);
        options.init = init;
        options.resume = resume;
        options.without_data = without_data;
        return std::make_unique<PyTrainer>(ConfigText{path, text}, changes, std::move(options));
      }))
      .def("step", &PyTrainer::step)
      .def("step_on", &PyTrainer::step_on)
      .def("evaluate", &PyTrainer::evaluate)
      .def("evaluate_and_heed", &PyTrainer::evaluate_and_heed)
      .def("finish", &PyTrainer::finish)
      .def("predict", &PyTrainer::predict)
      .def("weights", [](const py::object& self) { return self.cast<PyTrainer&>().weights(self); })
      .def("weights_changed", &PyTrainer::weights_changed)
      .def("save", &PyTrainer::save)
      .def("export_weights", &PyTrainer::export_weights)
      .def_property_readonly("loss", &PyTrainer::loss)
      .def_property_readonly("learning_rate", &PyTrainer::learning_rate)
      .def_property_readonly("iteration", [](PyTrainer& t) { return t.trainer().iteration(); })
      .def_property_readonly("last_iteration",
                             [](PyTrainer& t) { return t.trainer().last_iteration(); })
      .def_property_readonly("samples", [](PyTrainer& t) { return t.trainer().samples(); })
      .def_property_readonly("eval_interval", &PyTrainer::eval_interval)
      .def_property_readonly("display",
                             [](PyTrainer& t) { return t.trainer().config().solver.display; });
}

void define_prediction(py::module_& module) {
  py::class_<PyPredictor>(module, "Predictor")
      .def(py::init([](const std::string& model, const std::string& path, const std::string& text,
                       const Changes& changes, const std::string& device, int threads,
                       int64_t batch) {
        return std::make_unique<PyPredictor>(model, ConfigText{path, text},
                                             options_of(path, changes, device, threads), batch);
      }))
      .def("predict", &PyPredictor::predict);
  module.def("auc", [](const Floats& label, const Floats& score) {
    if (label.size() != score.size())
      raise<DataError>("score: expected one for each of {} labels, found {}", label.size(),
                       score.size());
    return ops::auc({score.data(), static_cast<size_t>(score.size())},
                    {label.data(), static_cast<size_t>(label.size())});
  });
  module.def("check", [](const std::string& path, const std::string& text, const Changes& changes) {
    return trainer::check_report(*predict::load_config({path, text}, changes),
                                 options_of(path, changes, "auto", 0));
  });
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = kVersion;
  log::set_level(log::Level::kWarning);
  define_errors(module);
  define_trainer(module);
  define_prediction(module);
}

}  // namespace hlite::python
