// The service over HTTP: KServe v2's REST paths, the page for people, /metrics.
#pragma once

#include <utility>  // which Boost 1.74 takes for granted

#include <boost/asio/thread_pool.hpp>
#include <string>
#include <vector>

#include "hugectr_lite/serve/http_server.h"
#include "hugectr_lite/serve/service.h"

namespace hlite::serve {

class HttpService {
 public:
  // `service` must outlive it, and the requests that it has admitted.
  HttpService(Service& service, int64_t max_body) : service_(service), max_body_(max_body) {}

  // Decides by the head what becomes of a request: who may ask for what, and with how large a body.
  // Called on the event loop, as what it decides for.
  Admission admit(const HttpHead& head);
  void set_counts(const HttpCounts& counts) {
    service_.metrics().set_connections(counts.connections, counts.refused, counts.body_bytes);
  }

 private:
  // Parts of a path below /v2/models/.
  struct ModelPath {
    std::string name = {}, version = {}, verb = {};
  };
  // Answers a request whose body has come, at once or later.
  using Work = std::function<void(HttpRequest&, const Respond&)>;
  struct Route {
    Work work;
    int64_t max_body = kSmallBody;
  };
  static constexpr int64_t kSmallBody = 64 << 10;
  // What the event loop parses itself: some 2 ms, where a thread of its own costs 0.1 to 0.4 ms.
  static constexpr int64_t kQuickBody = 512 << 10;

  [[nodiscard]] Route route(const HttpHead& head);
  [[nodiscard]] Route model_route(const HttpHead& head, const ModelPath& path);
  [[nodiscard]] Route repository_route(const HttpHead& head, const std::vector<std::string>& parts);
  void check_consent(const HttpHead& head) const;
  [[nodiscard]] HttpAnswer page(const HttpHead& head) const;
  [[nodiscard]] HttpAnswer index() const;
  [[nodiscard]] HttpAnswer all_stats() const;
  void infer(const HttpRequest& request, const ModelPath& path, const Respond& respond);
  [[nodiscard]] Respond logged(const HttpHead& head, Clock::time_point received, size_t bytes,
                               const Respond& respond);

  Service& service_;
  const int64_t max_body_;
  // Reads large bodies, which would keep all other requests waiting on the event loop.
  boost::asio::thread_pool readers_{2};
};

}  // namespace hlite::serve
