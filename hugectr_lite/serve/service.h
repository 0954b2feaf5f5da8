// What a server answers: KServe v2's REST paths, /metrics, and who may ask.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/kserve.h"
#include "hugectr_lite/serve/scorer.h"

namespace hlite::serve {

struct ServiceOptions {
  std::string token;                         // of "Authorization: Bearer"; empty: none is asked for
  std::chrono::milliseconds deadline{1000};  // of a request that says none, until scoring begins
  bool access_log = false;                   // a line of JSON a request, on standard output
};

struct NamedModel {
  std::string name = {}, version = {};
  ScorerOptions scorer;
};

class Service {
 public:
  // Loads the models. Throws what Scorer throws.
  Service(const ServiceOptions& options, const std::vector<NamedModel>& models);

  // Answers a request, at once or when it is scored. Called on the event loop.
  void handle(HttpRequest request, const Respond& respond);
  // Not ready from now on.
  void drain() { draining_ = true; }
  void set_counts(const HttpCounts& counts) {
    metrics_.set_connections(counts.connections, counts.refused);
  }

 private:
  struct Model {
    ModelDescription description;
    std::string version;
    ModelMetrics metrics;
    std::unique_ptr<Scorer> scorer;
  };
  // Parts of a path below /v2/models/.
  struct ModelPath {
    std::string name = {}, version = {}, verb = {};
  };
  [[nodiscard]] HttpAnswer answer(const HttpRequest& request);
  [[nodiscard]] HttpAnswer answer_model(const HttpRequest& request, const ModelPath& path);
  void infer(const HttpRequest& request, const ModelPath& path, const Respond& respond);
  [[nodiscard]] const Model& model_of(const ModelPath& path) const;
  void check_token(const HttpRequest& request) const;
  [[nodiscard]] Respond logged(const HttpRequest& request, const Respond& respond);

  const ServiceOptions options_;
  Metrics metrics_;
  std::map<std::string, Model, std::less<>> models_;
  bool draining_ = false;
};

}  // namespace hlite::serve
