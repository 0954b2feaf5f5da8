#include "hugectr_lite/serve/status_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/shell_word.h"
#include "hugectr_lite/trainer/report/page.h"

namespace hlite::serve {

using trainer::Json;

namespace {

constexpr const char* kScript = R"js(
const POINTS = 180, state = {};
// Values of a metric of a model, by bucket where it is a histogram.
function values(text, metric, model) {
  const found = {}, name = model.replaceAll('.', '\\.');
  const lines = new RegExp(`^hugectr_lite_${metric}\\{model="${name}"(?:,le="([^"]*)")?\\} (.*)$`, 'gm');
  for (const [, bucket, value] of text.matchAll(lines)) found[bucket ?? 'value'] = +value;
  return found;
}
// Milliseconds, by linear interpolation within a bucket.
function quantile(before, after, q) {
  const count = bucket => after[bucket] - (before[bucket] ?? 0), wanted = q * count('+Inf');
  let low = 0, below = 0;
  if (!(wanted > 0)) return NaN;
  for (const bucket of Object.keys(after).filter(b => b !== '+Inf').sort((a, b) => a - b)) {
    if (count(bucket) >= wanted)
      return 1e3 * (low + (bucket - low) * (wanted - below) / (count(bucket) - below));
    [low, below] = [+bucket, count(bucket)];
  }
  return 1e3 * low;
}
// `series`: {name: values, one a second}
function draw(figure, title, series) {
  const names = Object.keys(series), last = name => (series[name].findLast(Number.isFinite) ?? NaN).toPrecision(3);
  if (names.length === 1) title += `: ${last(title)}`;
  figure.replaceWith(chart({title, x: 'seconds', zero: true, lines: names.map(name => ({
    name, note: last(name), points: series[name].map((y, i, all) => [i + 1 - all.length, y])}))}));
}
async function look() {
  try {
    const text = await (await fetch('metrics')).text(), now = performance.now() / 1e3;
    for (const section of document.querySelectorAll('section[id]')) {
      const model = section.id, seen = state[model] ??= {rate: [], p50: [], p99: []};
      const requests = values(text, 'requests_total', model).value;
      const buckets = values(text, 'request_seconds_bucket', model);
      if (seen.now !== undefined) {
        seen.rate.push((requests - seen.requests) / (now - seen.now));
        seen.p50.push(quantile(seen.buckets, buckets, .5));
        seen.p99.push(quantile(seen.buckets, buckets, .99));
        for (const line of [seen.rate, seen.p50, seen.p99]) if (line.length > POINTS) line.shift();
        const [rates, latencies] = section.querySelectorAll('figure');
        draw(rates, 'requests/s', {'requests/s': seen.rate});
        draw(latencies, 'latency in ms', {p50: seen.p50, p99: seen.p99});
      }
      Object.assign(seen, {now, requests, buckets});
      const {versions, parameters} = await (await fetch('v2/models/' + model)).json();
      section.querySelector('output').textContent = versions[0] + (parameters ?
        `, iteration ${parameters.iteration}, checksum ${parameters.weights_xxh3_64}` : '');
    }
  } finally {
    setTimeout(look, 1000);
  }
}
document.addEventListener('DOMContentLoaded', () => {
  for (const pre of document.querySelectorAll('pre'))
    pre.textContent = pre.textContent.replace(/http:\/\/[^\/]+/, location.origin);
  look();
});
)js";

// One sample of zeros, which every model takes.
std::string example_request(const ModelDescription& model) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const TensorSpec& spec : model.inputs)
    // Lines of text come instead of the others, and keys may have the histories.
    if (spec.type != DataType::kBytes && spec.max_len == 0)
      inputs.push_back({{"name", spec.name},
                        {"shape", {1, spec.shape[1]}},
                        {"datatype", name_of(spec.type)},
                        {"data", std::vector<int>(static_cast<size_t>(spec.shape[1]))}});
  return nlohmann::ordered_json{{"inputs", inputs}}.dump();
}

// A line as a word of a shell's command. Terminals take a tab for a wish, so printf writes it.
std::string line_as_word(const std::string& line) {
  if (line.find('\t') == std::string::npos) return shell_quoted(line);
  std::string escaped;
  for (const char c : line) escaped += c == '\t' ? "\\t" : c == '\\' ? "\\\\" : std::string(1, c);
  return "\"$(printf %b " + shell_quoted(escaped) + ")\"";
}

void add_curl(Json& section, const ModelDescription& model, const std::string& url,
              const std::string& header) {
  if (model.example_line.empty()) return;
  Json text = {"p", "A line"};
  if (!model.example_names.empty())
    text.insert(text.end(), {" of the columns ", {"code", model.example_names}});
  text.push_back(
      ", as the training file has them, without the label. Its texts are some of their "
      "columns', its numbers means:");
  section.push_back(text);
  section.push_back({"pre", fmt::format("curl {}/text{} --data-raw {}", url, header,
                                        line_as_word(model.example_line))});
}

// A client may send anything as its Host; what goes into a command must be an address.
std::string checked_host(const std::string& host) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || std::strchr(".-:[]", c); };
  return !host.empty() && std::all_of(host.begin(), host.end(), fits) ? host : "localhost:8080";
}

Json tensor_table(const ModelDescription& model) {
  Json rows = Json::array();
  const auto add = [&](const TensorSpec& spec, const char* way) {
    rows.push_back(
        {way, spec.name, name_of(spec.type), fmt::format("[{}]", fmt::join(spec.shape, ", "))});
  };
  for (const TensorSpec& spec : model.inputs) add(spec, "input");
  for (const TensorSpec& spec : model.outputs) add(spec, "output");
  return {"table", {"", "tensor", "datatype", "shape"}, rows, {1, 2, 3}};
}

}  // namespace

std::string status_page(std::span<const StatusEntry> models, const std::string& host, bool token) {
  Json body = Json::array(
      {Json{"h1", "hugectr_lite serve"}, Json{"p.soft",
                                              fmt::format("Version {}; ", kVersion),
                                              {"a", {{"href", "metrics"}}, "metrics"}}});
  const char* const header = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  for (const auto& [model, error] : models) {
    Json section = trainer::section(model.name.c_str());
    if (!error.empty()) {
      section.push_back({"p.state.bad", "not served: " + error});
    } else {
      const std::string url = fmt::format("http://{}/v2/models/{}", checked_host(host), model.name);
      section.insert(section.end(),
                     {{{"id", model.name}},
                      {"p.soft", "Version ", {"output", model.versions.at(0)}},
                      {"div.charts", Json::array({"figure"}), Json::array({"figure"})},
                      tensor_table(model)});
      add_curl(section, model, url, header);
      section.push_back({"p", "One sample of zeros:"});
      section.push_back(
          {"pre", fmt::format("curl {}/infer{} -d '{}'", url, header, example_request(model))});
    }
    body.push_back(section);
  }
  return trainer::html_page({{"title", "hugectr_lite serve"}, {"body", body}}, kScript);
}

}  // namespace hlite::serve
