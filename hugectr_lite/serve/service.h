// Service answers requests of any protocol: it has the models and the token, scores samples, and
// counts and logs what was answered.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hugectr_lite/serve/infer_request.h"
#include "hugectr_lite/serve/served_model.h"

namespace hlite::serve {

struct ServiceOptions {
  std::string token;                         // of "Authorization: Bearer"; empty: none is asked for
  std::chrono::milliseconds deadline{1000};  // of a request that says none, until scoring begins
  bool access_log = false;                   // a line of JSON a request, on standard output
};

// A request for scores, before its tensors.
struct InferCall {
  std::string model, version;  // no version: the current one
  Clock::time_point received;
  Clock::time_point latest = Clock::time_point::max();  // when the client will have given up
};

// Scores [samples, tasks], or why there are none.
struct Inferred {
  const LoadedVersion& version;
  const InferRequest& request;  // without its inputs
  int status = 200;
  std::string error = {};
  std::span<const float> scores = {};
};

// A request that is answered. Statuses are HTTP's in all protocols.
struct Finished {
  std::string client, method, path;
  Clock::time_point received;
  size_t request_bytes = 0, answer_bytes = 0;
  int status = 200;
};

// The answer to a request that was not served.
struct Refusal {
  int status;
  std::string message;
};
// Returns what the exception that is being handled means to the client of `request`.
Refusal current_refusal(std::string_view request);

// Any number of threads may use it.
class Service {
 public:
  // Loads the models. Throws what ServedModel throws.
  Service(const ServiceOptions& options, const std::vector<ServedModelOptions>& models);

  // `authorization`: "Bearer TOKEN". Throws RequestError (401).
  void check_token(std::string_view authorization) const;
  [[nodiscard]] bool requires_token() const { return !options_.token.empty(); }
  // Throws RequestError (503) while the server shuts down, or where a model is damaged.
  void check_ready() const;
  // Not ready from now on, and what is queued is scored at once.
  void drain();

  using Models = std::map<std::string, std::unique_ptr<ServedModel>, std::less<>>;
  [[nodiscard]] const Models& models() const { return models_; }
  // Throws RequestError (404) for a model that is not served, or another version of it.
  [[nodiscard]] ServedModel& model(const std::string& name) const;
  [[nodiscard]] ServedModel::Lease version(const std::string& name,
                                           const std::string& version) const;

  // Scores the request that `parse` reads, which is called only if the queue is not full. `done` is
  // called once, on a scoring thread, unless this throws: RequestError, DataError.
  using Parse = std::function<InferRequest(const ModelDescription&)>;
  void infer(const InferCall& call, const Parse& parse, std::function<void(const Inferred&)> done);

  // Counts a request and logs it.
  void finished(const Finished& request);
  [[nodiscard]] Metrics& metrics() { return metrics_; }

 private:
  void submit(const ServedModel::Lease& version, const InferCall& call, const Parse& parse,
              std::function<void(const Inferred&)> done);

  const ServiceOptions options_;
  Metrics metrics_;
  Models models_;
  std::atomic<bool> draining_{false};
};

}  // namespace hlite::serve
