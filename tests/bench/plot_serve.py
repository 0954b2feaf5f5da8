#!/usr/bin/env python3
"""Draws the latencies that serve_figures.py recorded over the offered rate, as SVG:

    plot_serve.py tests/bench/serve_figures.json docs/serve_latency.svg
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 360, 220, 50, 28, 12, 40
COLORS = {"p50_ms": "#4a90d9", "p99_ms": "#d9704a"}


def decades(values):
    return range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)


def panel(title, points, at):
    """Offered requests per second over latency, both logarithmic; points: records up to the top rate."""
    xs = [point["asked_requests_per_s"] for point in points]
    ticks = decades([point[key] for point in points for key in COLORS])
    left, right = math.log10(min(xs)) - 0.05, math.log10(max(xs)) + 0.05

    def x(value):
        return at + LEFT + (math.log10(value) - left) / (right - left) * (WIDTH - LEFT - RIGHT)

    def y(value):
        return HEIGHT - BOTTOM - (math.log10(value) - ticks[0]) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)
    out = [f'<text x="{at + WIDTH / 2}" y="16" text-anchor="middle" font-weight="bold">{title}</text>']
    for power in ticks:
        out.append(f'<path d="M{at + LEFT} {y(10 ** power):.1f}H{at + WIDTH - RIGHT}" stroke="#8886"/>'
                   f'<text x="{at + LEFT - 5}" y="{y(10 ** power) + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    for value in xs[:1] + [b for a, b in zip(xs, xs[1:]) if x(b) - x(a) > 45]:
        out.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{value:,.0f}</text>')
    out.append(f'<text x="{at + WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">offered requests/s</text>')
    for key, color in COLORS.items():
        line = "L".join(f"{x(point['asked_requests_per_s']):.1f} {y(point[key]):.1f}" for point in points)
        out.append(f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        last = points[-1]
        out.append(f'<text x="{x(last["asked_requests_per_s"]) - 4:.1f}" y="{y(last[key]) - 5:.1f}" text-anchor="end" '
                   f'fill="{color}">{key[:3]}, ms</text>')
    return out


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        found = json.load(file)
    panels = [(f"{name}, {samples} sample{'s' * (samples != '1')} a request",
               [record for share, record in of["shares"].items() if float(share) <= 1])
              for name, sizes in found.items() for samples, of in sizes.items()]
    width, height = 2 * WIDTH, HEIGHT * ((len(panels) + 1) // 2)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for i, (title, points) in enumerate(panels):
        out.append(f'<g transform="translate(0 {HEIGHT * (i // 2)})">')
        out += panel(title, points, WIDTH * (i % 2)) + ["</g>"]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out + ["</svg>\n"]))


if __name__ == "__main__":
    main()
