// The look of the pages of html_report.h and of `serve` (serve/status_page.h).
#pragma once

#include <string>

namespace hlite::trainer {

// Colours: series are distinguishable for people who do not see red from green, on light and dark.
inline constexpr const char* kReportStyle = R"css(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16202c;--soft:#5b6776;--line:#dfe3e8;
--s0:#1f6fb2;--s1:#d9730d;--floor:#1f6fb2;--rest:#c9dcee;--good:#1a7f4b;--bad:#b3261e;--live:#8a6100}
@media (prefers-color-scheme:dark){:root{--page:#11161c;--card:#1a2129;--ink:#e6ebf0;--soft:#9aa7b4;--line:#2d3742;
--s0:#6cb2ee;--s1:#f0a35c;--floor:#6cb2ee;--rest:#2c4257;--good:#5fd39a;--bad:#ff8a80;--live:#f0c560}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:1.5rem;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:0 0 10px}
p{margin:0 0 10px}
.soft{color:var(--soft)}
.state{font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}.live{color:var(--live)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px;margin-top:16px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin-top:16px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.tile b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:.85rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:16px;margin-top:16px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px}
figcaption{font-weight:600;margin-bottom:4px;display:flex;flex-wrap:wrap;gap:4px 14px}
.key{font-weight:400;color:var(--soft)}
.key:before{content:"";display:inline-block;width:14px;height:3px;margin-right:6px;vertical-align:middle;background:var(--s0)}
.key.s1:before{background:var(--s1)}
svg{display:block;width:100%;height:auto}
svg path{fill:none;stroke-width:1.8;stroke-linejoin:round}
path.s0{stroke:var(--s0)}path.s1{stroke:var(--s1)}circle.s0{fill:var(--s0)}circle.s1{fill:var(--s1)}
.grid{stroke:var(--line)}.tick{fill:var(--soft);font-size:12px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{text-align:right;padding:5px 10px;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child,.words,.left{text-align:left}
.words{white-space:normal;min-width:200px}
th{color:var(--soft);font-weight:600}
.bar{display:block;min-width:120px;height:12px;border-radius:3px;overflow:hidden}
.bar i{float:left;height:100%}.bar .f{background:var(--floor)}.bar .r{background:var(--rest)}
pre{overflow:auto;max-height:480px;font-size:.82rem;margin:8px 0 0;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;font-weight:600}
.wide+details{margin-top:10px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media (max-width:520px){main{padding:14px 10px 32px}section{padding:12px}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:8px}
.tick{font-size:15px}}
@media print{:root{--page:#fff;--card:#fff;--ink:#000;--soft:#444;--line:#bbb;--s0:#1f6fb2;--s1:#d9730d;--floor:#1f6fb2;--rest:#c9dcee}
body{font-size:11px}main{max-width:none;padding:0}section,figure,.tile{break-inside:avoid}pre{max-height:none}
.bar i{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)css";

// The beginning of a page, up to its content. `style`: rules in addition to those.
inline std::string page_head(const std::string& title, const char* style = "") {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
         "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<link rel=\"icon\" "
         "href=\"data:,\">\n<title>" +
         title + "</title>\n<style>" + kReportStyle + style + "</style></head><body><main>\n";
}

}  // namespace hlite::trainer
