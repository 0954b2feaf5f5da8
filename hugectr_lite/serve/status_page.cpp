#include "hugectr_lite/serve/status_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/build_config.h"

namespace hlite::serve {

namespace {

constexpr const char* kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>hugectr_lite serve</title><link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .1em 1.5em .1em 0; }
pre { padding: .7em; overflow-x: auto; } pre, svg { border: 1px solid #8884; border-radius: .3em; }
figure { display: inline-block; margin: .5em 1em .5em 0; width: 27em; max-width: 100%; }
svg { width: 100%; height: 7em; }
path { fill: none; stroke: #4a90d9; stroke-width: 1.5; vector-effect: non-scaling-stroke; }
path + path { stroke: #d9704a; } .p50 { color: #4a90d9; } .p99 { color: #d9704a; } .error { color: #d33; }
</style></head><body>
<h1>hugectr_lite serve</h1>
)html";

constexpr const char* kScript = R"html(<script>
'use strict';
const POINTS = 180, state = {};
for (const pre of document.querySelectorAll('pre'))
  pre.textContent = pre.textContent.replace(/http:\/\/[^\/]+/, location.origin);
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
function draw(figure, lines) {
  const most = Math.max(1e-9, ...lines.flat().filter(Number.isFinite));  // NaN: no requests
  figure.querySelectorAll('path').forEach((path, i) => {
    let pen = 'M';
    path.setAttribute('d', lines[i].map((y, x) => {
      if (!Number.isFinite(y)) { pen = 'M'; return ''; }
      const step = `${pen}${300 * (x + POINTS - lines[i].length) / (POINTS - 1)} ${98 - 94 * y / most}`;
      pen = 'L';
      return step;
    }).join(''));
    const last = lines[i].findLast(Number.isFinite);
    figure.querySelectorAll('output')[i].textContent = last === undefined ? '-' : last.toPrecision(3);
  });
}
async function look() {
  try {
    const text = await (await fetch('metrics')).text(), now = performance.now() / 1e3;
    for (const section of document.querySelectorAll('section')) {
      const model = section.id, seen = state[model] ??= {rate: [], p50: [], p99: []};
      const requests = values(text, 'requests_total', model).value;
      const buckets = values(text, 'request_seconds_bucket', model);
      if (seen.now !== undefined) {
        seen.rate.push((requests - seen.requests) / (now - seen.now));
        seen.p50.push(quantile(seen.buckets, buckets, .5));
        seen.p99.push(quantile(seen.buckets, buckets, .99));
        for (const line of [seen.rate, seen.p50, seen.p99]) if (line.length > POINTS) line.shift();
        const [rates, latencies] = section.querySelectorAll('figure');
        draw(rates, [seen.rate]);
        draw(latencies, [seen.p50, seen.p99]);
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
look();
</script></body></html>
)html";

constexpr const char* kFigures =
    R"html(<figure><svg viewBox="0 0 300 100" preserveAspectRatio="none"><path/></svg>
<figcaption>requests/s: <output>-</output></figcaption></figure>
<figure><svg viewBox="0 0 300 100" preserveAspectRatio="none"><path/><path/></svg>
<figcaption>latency in ms: <span class="p50">p50 <output>-</output></span>,
<span class="p99">p99 <output>-</output></span></figcaption></figure>
)html";

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

// One sample of zeros, which every model takes.
std::string example_request(const ModelDescription& model) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const TensorSpec& spec : model.inputs)
    if (spec.type != DataType::kBytes)  // lines of text, instead of the others
      inputs.push_back({{"name", spec.name},
                        {"shape", {1, spec.shape[1]}},
                        {"datatype", name_of(spec.type)},
                        {"data", std::vector<int>(static_cast<size_t>(spec.shape[1]))}});
  return nlohmann::ordered_json{{"inputs", inputs}}.dump();
}

// A client may send anything as its Host; what goes into a command must be an address.
std::string checked_host(const std::string& host) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || std::strchr(".-:[]", c); };
  return !host.empty() && std::all_of(host.begin(), host.end(), fits) ? host : "localhost:8080";
}

std::string tensor_rows(const ModelDescription& model) {
  std::string rows;
  const auto add = [&](const TensorSpec& spec, const char* way) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>[{}]</td></tr>\n", way, spec.name,
                        name_of(spec.type), fmt::join(spec.shape, ", "));
  };
  for (const TensorSpec& spec : model.inputs) add(spec, "input");
  for (const TensorSpec& spec : model.outputs) add(spec, "output");
  return rows;
}

}  // namespace

std::string status_page(std::span<const StatusEntry> models, const std::string& host, bool token) {
  std::string page = kHead;
  page += fmt::format("<p>Version {}; <a href=\"metrics\">metrics</a></p>\n", kVersion);
  for (const auto& [model, error] : models) {
    if (!error.empty()) {
      page += fmt::format("<h2>{}</h2><p class=\"error\">not served: {}</p>\n", model.name,
                          html_text(error));
      continue;
    }
    page += fmt::format(
        "<section id=\"{0}\"><h2>{0}</h2>\n"
        "<p>Version <output>{1}</output></p>\n{2}"
        "<table><tr><th></th><th>tensor</th><th>datatype</th><th>shape</th></tr>\n{3}</table>\n"
        "<p>One sample of zeros:</p>\n"
        "<pre>curl http://{4}/v2/models/{0}/infer{5} -d '{6}'</pre></section>\n",
        model.name, model.versions.at(0), kFigures, tensor_rows(model), checked_host(host),
        token ? " -H \"Authorization: Bearer $TOKEN\"" : "", html_text(example_request(model)));
  }
  return page + kScript;
}

}  // namespace hlite::serve
