// Load on a running `serve`: requests at random times of a given rate, whether or not earlier ones
// are answered (an open loop: Poisson arrivals), or as fast as answers come (--rate 0).
//
// A latency counts from the time when the request was due, not from when a connection was free for
// it, so that a server that stalls does not hide its queue (no coordinated omission). Prints a line
// of JSON.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/run_program.h"

namespace hlite::bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

struct Load {
  std::string model = "demo", path = {};
  int port = 8080, connections = 8, samples = 1, most = 0;
  double rate = 0, seconds = 5, warm_up = 1;
  bool as_json = false;
};

int connect_to(int port, bool blocking) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket < 0 || ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    raise<DeviceError>("127.0.0.1:{}: cannot connect: {}", port, std::strerror(errno));
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!blocking) ::fcntl(socket, F_SETFL, O_NONBLOCK);
  return socket;
}

// What a head says of its body; names of headers may be written in any case.
size_t body_bytes(std::string head) {
  for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const size_t at = head.find("content-length: ");
  return at == std::string::npos ? 0 : std::stoul(head.substr(at + 16, 20));
}

// One connection: a request, then its answer.
class Connection {
 public:
  explicit Connection(int port) : socket_(connect_to(port, false)) {}
  [[nodiscard]] int socket() const { return socket_; }

  void send(const std::string& request, Clock::time_point due) {
    due_ = due;
    request_ = &request;
    sent_ = 0;
    answer_.clear();
    needed_ = 0;
    flush();
  }
  void flush() {
    while (sent_ < request_->size()) {
      const ssize_t n =
          ::send(socket_, request_->data() + sent_, request_->size() - sent_, MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) raise<DeviceError>("cannot send: {}", std::strerror(errno));
      sent_ += static_cast<size_t>(n);
    }
  }
  // True once the whole answer is there.
  bool receive() {
    char piece[1 << 16];
    for (;;) {
      const ssize_t n = ::recv(socket_, piece, sizeof piece, 0);
      if (n < 0 && errno == EAGAIN) return false;
      if (n <= 0) raise<DeviceError>("the server closed a connection");
      answer_.append(piece, static_cast<size_t>(n));
      if (needed_ == 0) {
        const size_t end = answer_.find("\r\n\r\n");
        if (end == std::string::npos) continue;
        needed_ = end + 4 + body_bytes(answer_.substr(0, end));
      }
      if (answer_.size() >= needed_) return true;
    }
  }
  [[nodiscard]] int status() const { return std::stoi(answer_.substr(9, 3)); }
  [[nodiscard]] Clock::time_point due() const { return due_; }
  [[nodiscard]] const std::string& answer() const { return answer_; }

 private:
  int socket_;
  const std::string* request_ = nullptr;
  size_t sent_ = 0, needed_ = 0;
  std::string answer_;
  Clock::time_point due_;
};

json metadata_of(const Load& load) {
  Connection connection(load.port);
  const std::string request =
      fmt::format("GET /v2/models/{} HTTP/1.1\r\nHost: bench\r\n\r\n", load.model);
  connection.send(request, Clock::now());
  while (!connection.receive()) ::usleep(100);
  ::close(connection.socket());
  if (connection.status() != 200) raise<DataError>("{}", connection.answer());
  return json::parse(connection.answer().substr(connection.answer().find("\r\n\r\n")));
}

// Requests with random features and keys, to be sent in turn.
std::vector<std::string> make_requests(const Load& load, const json& metadata) {
  std::vector<std::string> requests;
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int> sizes(load.samples, std::max(load.samples, load.most));
  for (int r = 0; r < 64; ++r) {
    const int samples = sizes(random);
    json inputs = json::array();
    std::string bytes;
    for (const json& input : metadata["inputs"]) {
      if (input["datatype"] == "BYTES") continue;  // lines of text, in the place of the others
      const auto width = input["shape"][1].get<size_t>();
      const size_t n = static_cast<size_t>(samples) * width;
      json tensor = {
          {"name", input["name"]}, {"datatype", input["datatype"]}, {"shape", {samples, width}}};
      const auto put = [&]<typename T>(const std::vector<T>& values) {
        if (load.as_json) {
          tensor["data"] = values;
          return;
        }
        tensor["parameters"] = {{"binary_data_size", n * sizeof(T)}};
        bytes.append(reinterpret_cast<const char*>(values.data()), n * sizeof(T));
      };
      if (input["datatype"] == "FP32") {
        std::vector<float> values(n);
        for (float& value : values) value = std::log1p(static_cast<float>(random() % 100));
        put(values);
      } else {
        const json& rows = input["parameters"]["rows"];
        std::vector<int64_t> values(n);
        for (size_t i = 0; i < n; ++i)
          values[i] = static_cast<int64_t>(random() % rows[i % width].get<uint64_t>());
        put(values);
      }
      inputs.push_back(std::move(tensor));
    }
    json request = {{"inputs", inputs}};
    if (!load.as_json) request["parameters"] = {{"binary_data_output", true}};
    const std::string head = request.dump();
    std::string text = fmt::format("POST {} HTTP/1.1\r\nHost: bench\r\nContent-Length: {}\r\n",
                                   load.path, head.size() + bytes.size());
    if (!load.as_json) text += fmt::format("Inference-Header-Content-Length: {}\r\n", head.size());
    requests.push_back(text + "\r\n" + head + bytes);
  }
  return requests;
}

struct Outcome {
  std::vector<double> latencies_ms;  // of answers with status 200
  std::map<int, int64_t> statuses;
};

Outcome run(const Load& load, const std::vector<std::string>& requests) {
  std::deque<Connection> connections;
  std::vector<Connection*> free;
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < load.connections; ++i) {
    connections.emplace_back(load.port);
    free.push_back(&connections.back());
    epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {}};
    event.data.ptr = &connections.back();
    ::epoll_ctl(poll, EPOLL_CTL_ADD, connections.back().socket(), &event);
  }
  ::prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds that a wait may be late
  std::mt19937_64 random(2);
  std::exponential_distribution<double> gap(load.rate > 0 ? load.rate : 1);
  const auto in_seconds = [](double s) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
  };
  const auto start = Clock::now(), counted = start + in_seconds(load.warm_up),
             end = counted + in_seconds(load.seconds);
  auto next = start;
  size_t sent = 0;
  Outcome outcome;
  for (;;) {
    auto now = Clock::now();
    while (!free.empty() && next <= now && next < end) {
      free.back()->send(requests[sent++ % requests.size()], load.rate > 0 ? next : now);
      free.pop_back();
      next = load.rate > 0 ? next + in_seconds(gap(random)) : now;
    }
    if (now >= end && free.size() == connections.size()) break;
    if (now > end + std::chrono::seconds(10)) break;  // what is not answered by then never is
    epoll_event events[256];
    const auto until =
        free.empty() || next >= end ? now + std::chrono::milliseconds(10) : std::max(next, now);
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(until - now).count();
    const timespec timeout = {.tv_sec = wait / 1'000'000'000, .tv_nsec = wait % 1'000'000'000};
    const int n = ::epoll_pwait2(poll, events, 256, &timeout, nullptr);
    now = Clock::now();
    for (int i = 0; i < n; ++i) {
      auto* const connection = static_cast<Connection*>(events[i].data.ptr);
      if (std::find(free.begin(), free.end(), connection) != free.end()) continue;
      connection->flush();
      if (!connection->receive()) continue;
      free.push_back(connection);
      if (connection->due() < counted) continue;
      const int status = connection->status();
      ++outcome.statuses[status];
      if (status == 200)
        outcome.latencies_ms.push_back(
            std::chrono::duration<double, std::milli>(now - connection->due()).count());
    }
  }
  ::close(poll);
  return outcome;
}

void report(const Load& load, Outcome outcome) {
  std::vector<double>& sorted = outcome.latencies_ms;
  std::sort(sorted.begin(), sorted.end());
  const auto percentile = [&](double p) {
    return sorted.empty()
               ? 0
               : sorted[std::min(sorted.size() - 1,
                                 static_cast<size_t>(p * static_cast<double>(sorted.size())))];
  };
  json statuses;
  for (const auto& [status, count] : outcome.statuses) statuses[std::to_string(status)] = count;
  const double rate = static_cast<double>(sorted.size()) / load.seconds;
  const double samples = 0.5 * (load.samples + std::max(load.samples, load.most));
  fmt::print("{}\n", json{{"samples_per_request", samples},
                          {"format", load.as_json ? "json" : "binary"},
                          {"connections", load.connections},
                          {"asked_requests_per_s", load.rate},
                          {"requests_per_s", rate},
                          {"samples_per_s", rate * samples},
                          {"p50_ms", percentile(0.5)},
                          {"p90_ms", percentile(0.9)},
                          {"p99_ms", percentile(0.99)},
                          {"p999_ms", percentile(0.999)},
                          {"max_ms", percentile(1)},
                          {"statuses", statuses}}
                         .dump());
}

}  // namespace
}  // namespace hlite::bench

int main(int argc, char** argv) {
  hlite::bench::Load load;
  CLI::App app("Load on a running serve: Poisson arrivals, latencies from when requests were due.",
               "serve_bench");
  app.add_option("--port", load.port, "Port of 127.0.0.1")->capture_default_str();
  app.add_option("--model", load.model, "The model's name")->capture_default_str();
  app.add_option("--samples", load.samples, "Samples of a request")->capture_default_str();
  app.add_option("--most-samples", load.most, "Samples of a request: from --samples to so many");
  app.add_option("--connections", load.connections, "Connections")->capture_default_str();
  app.add_option("--rate", load.rate, "Requests per second; 0: as fast as answers come")
      ->capture_default_str();
  app.add_option("--seconds", load.seconds, "Time that is measured")->capture_default_str();
  app.add_option("--warm-up", load.warm_up, "Seconds before that")->capture_default_str();
  app.add_flag("--json", load.as_json, "JSON [binary tensors]");
  return hlite::run_program(app, argc, argv, [&] {
    load.path = "/v2/models/" + load.model + "/infer";
    const auto requests = hlite::bench::make_requests(load, hlite::bench::metadata_of(load));
    hlite::bench::report(load, hlite::bench::run(load, requests));
    return hlite::kExitDone;
  });
}
