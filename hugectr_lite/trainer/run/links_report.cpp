#include "hugectr_lite/trainer/run/links_report.h"

#include "hugectr_lite/comm/peer_links.h"
#include "hugectr_lite/core/error.h"
#include "hugectr_lite/core/log.h"
#include "hugectr_lite/trainer/model/resources.h"

namespace hlite::trainer {

void report_links(const cuda::Backend& gpu, const comm::DeviceCommunicator& ranks,
                  Progress& progress) {
  const comm::PeerLinks links(gpu, ranks.devices());
  progress.line(ranks.describe());
  if (const std::string matrix = links.matrix(); !matrix.empty())
    progress.line("how ranks reach each other's GPUs\n" + matrix);
  if (const std::string warning = links.warning(); !warning.empty()) log::warning("{}", warning);
}

std::string links_report(const config::TrainConfig& config, const Options& options) {
  constexpr int64_t kCopied = int64_t{16} << 20;
  if (options.device.value_or(config.solver.device) == config::DeviceChoice::kCpu)
    raise<ConfigError>("--links: expected GPUs, found device cpu");
  const cuda::Backend& gpu = *choose_device(config, config::DeviceChoice::kCuda);
  std::vector<int> devices;
  for (const auto& row : config.solver.gpu) devices.insert(devices.end(), row.begin(), row.end());
  comm::PeerLinks links(gpu, devices);
  std::string text;
  if (!links.matrix().empty()) {
    links.measure(kCopied);
    text = links.matrix() + "\n";
  }
  if (const std::string warning = links.warning(); !warning.empty())
    text += "warning: " + warning + "\n";
  return links.describe() + "\n" + text;
}

}  // namespace hlite::trainer
