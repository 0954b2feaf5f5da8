#include "tests/support/cuda_emulation/nccl_links.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/support/cuda_emulation/stream_queues.h"

namespace hlite::emulation {
namespace {

constexpr std::chrono::seconds kEnding{600};
constexpr uint64_t kMaxBytes = uint64_t{1} << 32;  // of a message

sockaddr_in socket_address(const NcclAddress& address) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = address.host;
  at.sin_port = htons(address.port);
  return at;
}

[[noreturn]] void fail_with(const std::string& what) {
  throw EmulationError("NCCL: " + what + ": " + std::strerror(errno));
}

int new_socket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) fail_with("cannot make a socket");
  return made;
}

void send_at_once(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool later() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

// ---- A connection ----

NcclLink::~NcclLink() { ::close(socket_); }

void NcclLink::send(const NcclMessage& message) {
  NcclMessage::Head head = message.head;
  head.bytes = message.body.size();
  std::vector<std::byte> bytes(sizeof(head) + message.body.size());
  std::memcpy(bytes.data(), &head, sizeof(head));
  std::copy(message.body.begin(), message.body.end(), bytes.begin() + sizeof(head));
  {
    const std::lock_guard lock(mutex_);
    out_.push_back(std::move(bytes));
  }
  NcclLinks::get().wake();
}

void NcclLink::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  NcclLinks::get().wake();
}

bool NcclLink::closing() {
  const std::lock_guard lock(mutex_);
  return closing_;
}

short NcclLink::wanted() {
  const std::lock_guard lock(mutex_);
  if (connecting_) return POLLOUT;
  if (closing_ && out_.empty()) shutdown(socket_, SHUT_WR);
  return static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
}

bool NcclLink::fail(const std::string& why) {
  why_ended_ = why;
  return false;
}

bool NcclLink::serve(short events) {
  {
    const std::lock_guard lock(mutex_);
    if (connecting_ && events != 0) {
      int error = 0;
      socklen_t size = sizeof(error);
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0) return fail(std::string("cannot connect: ") + std::strerror(error));
      connecting_ = false;
      send_at_once(socket_);
    }
  }
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !read_some()) return false;
  return (events & POLLOUT) == 0 || write_some();
}

bool NcclLink::read_some() {
  while (true) {
    const bool in_head = in_bytes_ < sizeof(in_.head);
    std::byte* const to = in_head ? reinterpret_cast<std::byte*>(&in_.head) + in_bytes_
                                  : in_.body.data() + (in_bytes_ - sizeof(in_.head));
    const size_t space =
        (in_head ? sizeof(in_.head) : sizeof(in_.head) + in_.body.size()) - in_bytes_;
    const ssize_t got = recv(socket_, to, space, 0);
    if (got == 0) return fail("the connection was closed");
    if (got < 0) return later() || fail(std::strerror(errno));
    in_bytes_ += static_cast<size_t>(got);
    if (in_bytes_ == sizeof(in_.head)) {
      if (in_.head.bytes > kMaxBytes) return fail("it is no peer of ours");
      in_.body.resize(in_.head.bytes);
    }
    if (in_bytes_ < sizeof(in_.head) || in_bytes_ < sizeof(in_.head) + in_.body.size()) continue;
    in_bytes_ = 0;
    const auto held = StreamQueues::lock();
    try {
      handler_.message(std::exchange(in_, {}));
    } catch (const EmulationError& error) {
      return fail(error.what());
    }
    StreamQueues::wake();
  }
}

bool NcclLink::write_some() {
  const std::lock_guard lock(mutex_);
  while (!out_.empty()) {
    const std::vector<std::byte>& first = out_.front();
    const ssize_t sent =
        ::send(socket_, first.data() + out_bytes_, first.size() - out_bytes_, MSG_NOSIGNAL);
    if (sent < 0) return later() || fail(std::strerror(errno));
    out_bytes_ += static_cast<size_t>(sent);
    if (out_bytes_ < first.size()) return true;
    out_.pop_front();
    out_bytes_ = 0;
  }
  return true;
}

// ---- All of them ----

NcclLinks& NcclLinks::get() {
  static NcclLinks all;
  return all;
}

NcclLinks::NcclLinks() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0) fail_with("cannot make an event");
}

NcclLinks::~NcclLinks() {
  if (thread_.joinable()) {
    if (const auto held = StreamQueues::lock(); ending) ending();
    limit_ = std::chrono::steady_clock::now() + kEnding;
    ending_ = true;
    wake();
    thread_.join();
  }
  if (listener_ >= 0) ::close(listener_);
  ::close(event_);
}

void NcclLinks::wake() const {
  const uint64_t one = 1;
  // It can fail only where it is awake already.
  static_cast<void>(!write(event_, &one, sizeof(one)));
}

// Signals are for the program's threads.
void NcclLinks::start() {
  if (thread_.joinable()) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

NcclAddress NcclLinks::listen() {
  const std::lock_guard lock(mutex_);
  if (listener_ >= 0) return address_;
  const NcclInterface interface =
      choose_interface(network_interfaces(), std::getenv("NCCL_SOCKET_IFNAME"));
  const int made = new_socket();
  sockaddr_in at = socket_address({interface.host, 0});
  socklen_t size = sizeof(at);
  auto* const general = reinterpret_cast<sockaddr*>(&at);
  if (bind(made, general, size) != 0 || ::listen(made, SOMAXCONN) != 0 ||
      getsockname(made, general, &size) != 0) {
    ::close(made);
    fail_with("cannot listen on interface " + interface.name);
  }
  listener_ = made;
  address_ = {interface.host, ntohs(at.sin_port)};
  start();
  wake();
  return address_;
}

std::shared_ptr<NcclLink> NcclLinks::connect(const NcclAddress& address,
                                             NcclLink::Handler handler) {
  const int made = new_socket();
  const sockaddr_in at = socket_address(address);
  const int result = ::connect(made, reinterpret_cast<const sockaddr*>(&at), sizeof(at));
  if (result != 0 && errno != EINPROGRESS) {
    ::close(made);
    fail_with("cannot connect to " + address.text());
  }
  auto link = std::make_shared<NcclLink>(made, true);
  link->handler_ = std::move(handler);
  const std::lock_guard lock(mutex_);
  links_.push_back(link);
  start();
  wake();
  return link;
}

void NcclLinks::accept_one() {
  const int made = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (made < 0) return;
  send_at_once(made);
  auto link = std::make_shared<NcclLink>(made, false);
  {
    const auto held = StreamQueues::lock();
    link->handler_ = accepted(link);
  }
  const std::lock_guard lock(mutex_);
  links_.push_back(std::move(link));
}

bool NcclLinks::finished(size_t links) const {
  return ending_ && (links == 0 || std::chrono::steady_clock::now() > limit_);
}

void NcclLinks::loop() {
  while (true) {
    std::vector<std::shared_ptr<NcclLink>> links;
    std::vector<pollfd> polled;
    {
      const std::lock_guard lock(mutex_);
      links = links_;
      if (finished(links.size())) return;
      polled.push_back({event_, POLLIN, 0});
      polled.push_back({ending_ ? -1 : listener_, POLLIN, 0});
    }
    for (const auto& link : links) polled.push_back({link->socket_, link->wanted(), 0});
    if (poll(polled.data(), polled.size(), ending_ ? 50 : -1) < 0) continue;
    uint64_t count = 0;
    static_cast<void>(!read(event_, &count, sizeof(count)));
    if (polled[1].revents != 0) accept_one();
    for (size_t i = 0; i < links.size(); ++i) {
      NcclLink& link = *links[i];
      if (polled[i + 2].revents == 0 || link.serve(polled[i + 2].revents)) continue;
      {
        const std::lock_guard lock(mutex_);
        std::erase(links_, links[i]);
      }
      const auto held = StreamQueues::lock();
      if (!link.closing()) link.handler_.ended(link.why_ended_);
      link.handler_ = {};  // what it holds may hold the link
      StreamQueues::wake();
    }
  }
}

}  // namespace hlite::emulation
