#!/usr/bin/env python3
"""What GPUs did in an iteration, from a file of libhlite_trace.so (hlite_trace.cpp), plain or gzip.

  trace_report.py TRACE [--graph ID | --marker NAME] [--json FILE] [--keep N --out FILE.jsonl.gz]

An iteration is a launch of a graph: of the one with the most different kernels, or of --graph. A program that uses none
begins one at each kernel whose name contains --marker. What is printed is that of the iteration of median length, after the
first two: the time of each kernel, and how much of it nothing else ran; gaps of each stream; time with nothing, one or
several streams at work; and the longest chain, which goes back from the last piece to the one that ended last before it
began, and so on. Every piece takes longer under a trace: compare the shares, and the span with an iteration without one.
--keep writes the last N iterations as a trace of their own."""
import argparse
import collections
import gzip
import json
import re
import statistics
import sys

PIECES = ("kernel", "memcpy", "memset")


def lines_of(path):
    """Objects of the lines; a last line that was cut off is left out."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    with (gzip.open if is_gzip else open)(path, "rt", encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                if line.endswith("\n"):
                    raise SystemExit(f"trace_report.py: {path}:{number}: expected JSON, found {line[:60]!r}: {error}")


def short(name):
    """A kernel's name without return type, namespaces, arguments of templates and parameters."""
    name = name.removeprefix("void ").replace("(anonymous namespace)", "")
    out, depth = "", 0
    for c in name:
        if c == "(" and depth == 0:
            break
        depth += (c == "<") - (c == ">")
        if depth == 0 and c != ">":
            out += c
    return re.sub(r"^.*::", "", out) or name


def read(path):
    """(the first line, pieces of work in the order of their start, the last line or None)"""
    names, pieces, first, last = {}, [], {}, None
    for line in lines_of(path):
        kind = line["kind"]
        if kind == "name":
            names[line["id"]] = line["name"]
        elif kind in PIECES and line["end"] > line["start"]:
            line["title"] = names[line["name"]] if kind == "kernel" else f"{kind} {line.get('copy', '')}".strip()
            pieces.append(line)
        elif kind == "trace":
            first = line
        elif kind == "end":
            last = line
    return first, sorted(pieces, key=lambda p: (p["start"], p["end"])), last


def by_graph(pieces, graph):
    """Launches of one graph, in turn; and (id, launches, pieces a launch, different kernels) of all graphs."""
    launches = collections.defaultdict(lambda: collections.defaultdict(list))
    for piece in pieces:
        if piece["graph"]:
            launches[piece["graph"]][(piece["device"], piece["launch"])].append(piece)
    seen = [(each, len(of), max(map(len, of.values())), len({p["title"] for run in of.values() for p in run}))
            for each, of in launches.items()]
    if not seen:
        return [], []
    if graph is None:
        graph = max(seen, key=lambda s: (s[3], s[1]))[0]
    return sorted(launches.get(graph, {}).values(), key=lambda run: run[0]["start"]), sorted(seen)


def by_marker(pieces, marker):
    runs = []
    for piece in pieces:
        if piece["kind"] == "kernel" and marker in piece["title"]:
            runs.append([])
        if runs:
            runs[-1].append(piece)
    return runs[:-1]  # the last may go on


def lane(piece, several_streams):
    """CUPTI may name the stream of a launch for all pieces of a graph; they still have channels."""
    return f"stream {piece['stream']}" if several_streams else f"channel {piece['channel']}"


def merged(intervals):
    out = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def total(intervals):
    return sum(end - start for start, end in intervals)


def depths(lanes):
    """{lanes at work: nanoseconds}, from first start to last end, and for each moment of a change what runs."""
    changes = collections.defaultdict(int)
    for intervals in lanes.values():
        for start, end in intervals:
            changes[start] += 1
            changes[end] -= 1
    times, depth, before = collections.Counter(), 0, None
    for at in sorted(changes):
        if before is not None:
            times[depth] += at - before
        depth += changes[at]
        before = at
    return dict(times)


def alone_times(run):
    """For each piece the nanoseconds in which no other ran."""
    changes = sorted([(p["start"], 1, i) for i, p in enumerate(run)] + [(p["end"], 0, i) for i, p in enumerate(run)])
    alone, active, before = [0] * len(run), set(), None
    for at, begins, i in changes:
        if len(active) == 1:
            alone[next(iter(active))] += at - before
        (active.add if begins else active.discard)(i)
        before = at
    return alone


def chain_of(run):
    """Pieces, first to last: each is the one that ended last before the next began."""
    by_end = sorted(run, key=lambda p: p["end"])
    chain = [by_end[-1]]
    for piece in reversed(by_end[:-1]):
        if piece["end"] <= chain[-1]["start"]:
            chain.append(piece)
    return chain[::-1]


def describe(run):
    """All that is printed of an iteration, in microseconds."""
    us = 1e-3
    several = len({p["stream"] for p in run}) > 1
    lanes = collections.defaultdict(list)
    for p in run:
        lanes[lane(p, several)].append((p["start"], p["end"]))
    lanes = {name: merged(of) for name, of in lanes.items()}
    span = max(p["end"] for p in run) - run[0]["start"]
    times = depths(lanes)
    streams = []
    for name, of in sorted(lanes.items(), key=lambda item: item[1][0][0]):
        gaps = [after[0] - before[1] for before, after in zip(of, of[1:])]
        streams.append({"lane": name, "pieces": sum(lane(p, several) == name for p in run), "busy": total(of) * us,
                        "gaps": len(gaps), "gap_sum": sum(gaps) * us, "gap_median": statistics.median(gaps or [0]) * us,
                        "gap_max": max(gaps or [0]) * us})
    kernels = collections.defaultdict(lambda: {"times": 0, "us": 0.0, "alone": 0.0, "longest": 0.0, "bytes": 0})
    for p, alone in zip(run, alone_times(run)):
        k = kernels[short(p["title"])]
        k["times"] += 1
        k["us"] += (p["end"] - p["start"]) * us
        k["alone"] += alone * us
        k["longest"] = max(k["longest"], (p["end"] - p["start"]) * us)
        k["bytes"] += p.get("bytes", 0)
    chain = chain_of(run)
    on_chain = sum(p["end"] - p["start"] for p in chain)
    edges = [after["start"] - before["end"] for before, after in zip(chain, chain[1:])]
    return {"span": span * us, "pieces": len(run), "sum": sum(p["end"] - p["start"] for p in run) * us,
            "nothing": times.get(0, 0) * us, "one": times.get(1, 0) * us,
            "several": sum(t for depth, t in times.items() if depth > 1) * us,
            "chain_pieces": len(chain), "chain": on_chain * us, "chain_gaps": sum(edges) * us,
            "chain_gap_median": statistics.median(edges or [0]) * us, "lanes": streams,
            "kernels": sorted(({"name": name, **k} for name, k in kernels.items()), key=lambda k: -k["us"]),
            "chain_of": [short(p["title"]) for p in chain]}


def print_report(d, spans):
    print(f"iterations {len(spans)}: shortest {min(spans):.1f} us, median {statistics.median(spans):.1f}, "
          f"longest {max(spans):.1f}; below is one of {d['span']:.1f} us with {d['pieces']} pieces")
    share = lambda t: f"{t:9.1f} us {100 * t / d['span']:5.1f} %"
    print(f"nothing runs    {share(d['nothing'])}\none stream      {share(d['one'])}\n"
          f"several streams {share(d['several'])}\nsum of pieces   {share(d['sum'])}")
    print(f"longest chain   {share(d['chain'])} in {d['chain_pieces']} pieces, {d['chain_gaps']:.1f} us between them, "
          f"median {d['chain_gap_median']:.2f}")
    print(f"\n{'lane':14}{'pieces':>8}{'busy us':>10}{'gaps':>7}{'sum us':>10}{'median':>9}{'longest':>9}")
    for s in d["lanes"]:
        print(f"{s['lane']:14}{s['pieces']:8}{s['busy']:10.1f}{s['gaps']:7}{s['gap_sum']:10.1f}{s['gap_median']:9.2f}"
              f"{s['gap_max']:9.1f}")
    print(f"\n{'kernel':46}{'times':>6}{'us':>10}{'% of span':>10}{'alone us':>10}{'longest':>9}{'bytes':>12}")
    for k in d["kernels"]:
        print(f"{k['name'][:45]:46}{k['times']:6}{k['us']:10.2f}{100 * k['us'] / d['span']:10.1f}{k['alone']:10.2f}"
              f"{k['longest']:9.2f}{k['bytes'] or '':>12}")
    print("\nchain: " + ", ".join(d["chain_of"]))


def keep(path, first, runs):
    names = {}
    with gzip.open(path, "wt", encoding="utf-8") as file:
        def put(line):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

        put(first)
        for piece in (p for run in runs for p in run):
            piece = dict(piece)
            title = piece.pop("title")
            if piece["kind"] == "kernel":
                if title not in names:
                    names[title] = len(names)
                    put({"kind": "name", "id": names[title], "name": title})
                piece["name"] = names[title]
            put(piece)


def main(words):
    parser = argparse.ArgumentParser(prog="trace_report.py", allow_abbrev=False, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--graph", type=int, metavar="ID", help="the graph whose launches are iterations")
    parser.add_argument("--marker", metavar="NAME", help="part of the name of the kernel that begins an iteration")
    parser.add_argument("--json", metavar="FILE", help="what is printed, as one object; microseconds")
    parser.add_argument("--keep", type=int, default=20, metavar="N", help="iterations that --out gets (default: 20)")
    parser.add_argument("--out", metavar="FILE", help="a trace of the last iterations, gzip")
    a = parser.parse_args(words)
    first, pieces, last = read(a.trace)
    if not last:
        print("the trace has no end: the program was killed, or wrote it no further", file=sys.stderr)
    elif last["dropped"] or last["left_out"]:
        print(f"records: {last['records']}, dropped {last['dropped']}, left out {last['left_out']}", file=sys.stderr)
    graphs = []
    if a.marker:
        runs = by_marker(pieces, a.marker)
    else:
        runs, graphs = by_graph(pieces, a.graph)
    if not runs:
        what = f"no kernel twice whose name contains {a.marker!r}" if a.marker else (
            f"no graph {a.graph if a.graph is not None else ''}".strip() + ", its graphs are "
            f"{[g[0] for g in graphs]}; --marker NAME is for a program without any")
        print(f"trace_report.py: {a.trace}: {len(pieces)} pieces of work, and {what}", file=sys.stderr)
        return 3
    for graph, launches, most, kernels in graphs:
        print(f"graph {graph}: {launches} launches of {most} pieces, {kernels} different")
    warm = runs[2:] or runs
    spans = [(max(p["end"] for p in run) - run[0]["start"]) * 1e-3 for run in warm]
    middle = warm[sorted(range(len(warm)), key=spans.__getitem__)[(len(warm) - 1) // 2]]
    described = describe(middle)
    print_report(described, spans)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump({"iterations": len(spans), "median": statistics.median(spans), **described}, file)
            file.write("\n")
    if a.out:
        keep(a.out, first, runs[-a.keep:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
