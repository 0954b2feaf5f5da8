// The service over HTTP: KServe v2's REST paths, the page for people, /metrics.
#pragma once

#include <string>
#include <vector>

#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/service.h"

namespace hlite::serve {

class HttpService {
 public:
  // `service` must outlive it.
  explicit HttpService(Service& service) : service_(service) {}

  // Answers a request, at once or when it is scored. Called on the event loop.
  void handle(HttpRequest request, const Respond& respond);
  void set_counts(const HttpCounts& counts) {
    service_.metrics().set_connections(counts.connections, counts.refused);
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
  void answer_repository(const HttpRequest& request, const std::vector<std::string>& parts,
                         const Respond& respond);
  [[nodiscard]] Respond logged(const HttpRequest& request, const Respond& respond);

  Service& service_;
};

}  // namespace hlite::serve
