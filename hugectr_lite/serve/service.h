// What a server answers: KServe v2's REST paths, /metrics, and who may ask.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/kserve.h"
#include "hugectr_lite/serve/served_model.h"

namespace hlite::serve {

struct ServiceOptions {
  std::string token;                         // of "Authorization: Bearer"; empty: none is asked for
  std::chrono::milliseconds deadline{1000};  // of a request that says none, until scoring begins
  bool access_log = false;                   // a line of JSON a request, on standard output
};

class Service {
 public:
  // Loads the models. Throws what ServedModel throws.
  Service(const ServiceOptions& options, const std::vector<ServedModelOptions>& models);

  // Answers a request, at once or when it is scored. Called on the event loop.
  void handle(HttpRequest request, const Respond& respond);
  // Not ready from now on.
  void drain() { draining_ = true; }
  void set_counts(const HttpCounts& counts) {
    metrics_.set_connections(counts.connections, counts.refused);
  }

 private:
  // Parts of a path below /v2/models/.
  struct ModelPath {
    std::string name = {}, version = {}, verb = {};
  };
  [[nodiscard]] HttpAnswer answer(const HttpRequest& request);
  [[nodiscard]] HttpAnswer page(const HttpRequest& request) const;
  [[nodiscard]] HttpAnswer answer_model(const HttpRequest& request, const ModelPath& path);
  void infer(const HttpRequest& request, const ModelPath& path, const Respond& respond);
  // Throws RequestError (404) for a model that is not served, or another version of it.
  [[nodiscard]] ServedModel& model_of(const std::string& name) const;
  [[nodiscard]] ServedModel::Lease version_of(const ModelPath& path) const;
  void answer_repository(const HttpRequest& request, const std::vector<std::string>& parts,
                         const Respond& respond);
  void check_token(const HttpRequest& request) const;
  [[nodiscard]] Respond logged(const HttpRequest& request, const Respond& respond);

  const ServiceOptions options_;
  Metrics metrics_;
  std::map<std::string, std::unique_ptr<ServedModel>, std::less<>> models_;
  bool draining_ = false;
};

}  // namespace hlite::serve
