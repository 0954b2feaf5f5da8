#include "hugectr_lite/serve/status_page.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hugectr_lite/core/build_config.h"
#include "hugectr_lite/core/shell_word.h"
#include "hugectr_lite/trainer/report/html_style.h"
#include "hugectr_lite/trainer/report/line_chart.h"

namespace hlite::serve {

using trainer::html_escaped;

namespace {

// In addition to the style of reports.
constexpr const char* kStyle = R"css(
section .charts{margin:12px 0}
section svg{height:7em}svg path{vector-effect:non-scaling-stroke}
section th,section td{text-align:left}
section pre{border:1px solid var(--line);border-radius:6px;padding:8px 12px;margin-bottom:12px}
)css";

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
</script></main></body></html>
)html";

constexpr const char* kFigures =
    R"html(<div class="charts"><figure><figcaption><span>requests/s: <output>-</output></span></figcaption>
<svg viewBox="0 0 300 100" preserveAspectRatio="none"><path class="s0"/></svg></figure>
<figure><figcaption>latency in ms: <span class="key">p50 <output>-</output></span>
<span class="key s1">p99 <output>-</output></span></figcaption>
<svg viewBox="0 0 300 100" preserveAspectRatio="none"><path class="s0"/><path class="s1"/></svg></figure></div>
)html";

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

// A line as a word of a shell's command. Terminals take a tab for a wish, so printf writes it.
std::string line_as_word(const std::string& line) {
  if (line.find('\t') == std::string::npos) return shell_quoted(line);
  std::string escaped;
  for (const char c : line) escaped += c == '\t' ? "\\t" : c == '\\' ? "\\\\" : std::string(1, c);
  return "\"$(printf %b " + shell_quoted(escaped) + ")\"";
}

std::string curl_text(const ModelDescription& model, const std::string& url,
                      const std::string& header) {
  if (model.example_line.empty()) return {};
  const std::string columns =
      model.example_names.empty()
          ? ""
          : fmt::format(" of the columns <code>{}</code>", html_escaped(model.example_names));
  return fmt::format(
      "<p>A line{}, as the training file has them, without the label. Its texts are some of their columns', "
      "its numbers means:</p>\n<pre>curl {}/text{} --data-raw {}</pre>\n",
      columns, url, header, html_escaped(line_as_word(model.example_line)));
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
  std::string page = trainer::page_head("hugectr_lite serve", kStyle);
  page += fmt::format(
      "<h1>hugectr_lite serve</h1>\n<p class=\"soft\">Version {}; <a href=\"metrics\">metrics</a>"
      "</p>\n",
      kVersion);
  const char* const header = token ? " -H \"Authorization: Bearer $TOKEN\"" : "";
  for (const auto& [model, error] : models) {
    if (!error.empty()) {
      page +=
          fmt::format("<section><h2>{}</h2>\n<p class=\"state bad\">not served: {}</p></section>\n",
                      model.name, html_escaped(error));
      continue;
    }
    const std::string url = fmt::format("http://{}/v2/models/{}", checked_host(host), model.name);
    page += fmt::format(
        "<section id=\"{0}\"><h2>{0}</h2>\n"
        "<p class=\"soft\">Version <output>{1}</output></p>\n{2}"
        "<div class=\"wide\"><table><tr><th></th><th>tensor</th><th>datatype</th><th>shape</th></tr>\n"
        "{3}</table></div>\n{4}<p>One sample of zeros:</p>\n<pre>curl {5}/infer{6} -d "
        "'{7}'</pre></section>\n",
        model.name, model.versions.at(0), kFigures, tensor_rows(model),
        curl_text(model, url, header), url, header, html_escaped(example_request(model)));
  }
  return page + kScript;
}

}  // namespace hlite::serve
