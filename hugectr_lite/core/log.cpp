#include "hugectr_lite/core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "hugectr_lite/core/in_quotes.h"

namespace hlite::log {
namespace {
thread_local bool muted = false;

spdlog::logger& logger() {
  static const auto instance = [] {
    auto l = spdlog::stderr_logger_mt("hlite");
    l->set_pattern("%H:%M:%S %v");
    l->flush_on(spdlog::level::trace);
    return l;
  }();
  return *instance;
}
}  // namespace

void set_level(Level level) {
  logger().set_level(level == Level::kInfo ? spdlog::level::info : spdlog::level::warn);
}

void mute_this_thread() { muted = true; }

void write(Level level, std::string_view message) {
  if (muted) return;
  if (level == Level::kInfo)
    logger().info(printable(message));
  else
    logger().warn("warning: {}", printable(message));
}

}  // namespace hlite::log
