#include "hugectr_lite/core/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

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

namespace {
constexpr std::array kLevels = {spdlog::level::info, spdlog::level::warn, spdlog::level::off};
}  // namespace

void set_level(Level level) { logger().set_level(kLevels.at(static_cast<size_t>(level))); }

Level level() {
  const auto at = std::find(kLevels.begin(), kLevels.end(), logger().level());
  return static_cast<Level>(at - kLevels.begin());
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
