#!/usr/bin/env python3
"""`serve` and onnxruntime in turn on the same model, threads and random samples, clients on the same machine:

  serve      the program, asked by serve_bench over binary tensors
  session    an onnxruntime session in a loop, with no server around it
  fastapi    the same session under uvicorn and FastAPI, queried with JSON by serve_bench --json

    serve_onnxruntime.py --programs build/release/bin --model checkpoint --onnx model.onnx --rounds 3

Prints samples per second at the top rate, p50 and p99 at half of it, and processor time per sample without the client's,
which a busy machine disturbs least. tools/export_onnx.py writes the model; onnxruntime, fastapi and uvicorn are PyPI's.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
import urllib.request

import numpy as np
import onnxruntime


def session_of(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(session, n, rows, count=64):
    random = np.random.default_rng(1)
    width = session.get_inputs()[0].shape[1]
    for _ in range(count):
        yield {"dense": np.log1p(random.integers(0, 100, (n, width))).astype(np.float32),
               "keys": np.stack([random.integers(0, most, n) for most in rows], 1)}


def bare_session(options, n, rows):
    session = session_of(options.onnx, options.threads)
    batches = list(feeds(session, n, rows))
    for batch in batches[:8]:
        session.run(None, batch)
    start, before, done = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF), 0
    while time.monotonic() < start + options.seconds:
        session.run(None, batches[done % len(batches)])
        done += 1
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"samples_per_s": done * n / wall, "p50_ms": wall / done * 1e3, "cpu_us": cpu / (done * n) * 1e6}


def app(onnx, threads, rows):
    """The FastAPI application, with as much of KServe v2 as serve_bench needs."""
    import fastapi
    session = session_of(onnx, threads)
    dense = session.get_inputs()[0].shape[1]
    application = fastapi.FastAPI()

    @application.get("/v2/models/demo")
    def metadata():
        return {"inputs": [{"name": "dense", "datatype": "FP32", "shape": [-1, dense]},
                           {"name": "keys", "datatype": "INT64", "shape": [-1, len(rows)], "parameters": {"rows": rows}}]}

    @application.post("/v2/models/demo/infer")
    async def infer(request: fastapi.Request):
        given = {t["name"]: t for t in (await request.json())["inputs"]}
        scores = session.run(None, {
            "dense": np.array(given["dense"]["data"], np.float32).reshape(given["dense"]["shape"]),
            "keys": np.array(given["keys"]["data"], np.int64).reshape(given["keys"]["shape"])})[0]
        return {"outputs": [{"name": "score", "shape": [len(scores), 1], "datatype": "FP32", "data": scores.ravel().tolist()}]}
    return application


def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def asked(options, command, n, more):
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(re.search(r":(\d+)\s", server.stdout.readline())[1])
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/demo").read()
                break
            except OSError:
                time.sleep(0.1)

        def bench(rate):
            before = cpu_of(server.pid)
            text = subprocess.run([os.path.join(options.programs, "serve_bench"), "--port", str(port), "--samples", str(n),
                                   "--connections", "32" if n == 1 else "8", "--rate", str(rate),
                                   "--seconds", str(options.seconds), "--warm-up", "1", *more],
                                  capture_output=True, text=True, check=True).stdout
            result = json.loads(text)
            # The processor time is that of the warm-up, too.
            served = result["samples_per_s"] * (options.seconds + 1)
            return {**result, "cpu_us": (cpu_of(server.pid) - before) / served * 1e6}
        top = bench(0)
        half = bench(top["requests_per_s"] / 2)
        return {"samples_per_s": top["samples_per_s"], "p50_ms": half["p50_ms"], "p99_ms": half["p99_ms"],
                "cpu_us": top["cpu_us"]}
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--onnx", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--app", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    serve = [os.path.join(options.programs, "serve"), "--model", "demo=" + options.model, "--port", "0", "--quiet",
             "--threads", str(options.threads)]
    if options.app:
        import socket
        import uvicorn
        rows = json.loads(os.environ["ROWS"])
        listening = socket.create_server(("127.0.0.1", 0))
        print(f"http://127.0.0.1:{listening.getsockname()[1]} ", flush=True)
        uvicorn.Server(uvicorn.Config(app(options.onnx, options.threads, rows), log_level="critical")).run([listening])
        return
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    port = re.search(r":(\d+)\s", server.stdout.readline())[1]
    metadata = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/demo"))
    server.terminate()
    rows = next(t for t in metadata["inputs"] if t["name"] == "keys")["parameters"]["rows"]
    os.environ["ROWS"] = json.dumps(rows)
    fastapi = [sys.executable, os.path.abspath(__file__), "--app", "--programs", options.programs, "--model", options.model,
               "--onnx", options.onnx, "--threads", str(options.threads)]
    print("| samples | | samples/s | p50 ms | p99 ms | processor us/sample |\n|---|---|---|---|---|---|")
    for n in options.samples:
        found = {"serve": [], "session": [], "fastapi": []}
        for _ in range(options.rounds):
            found["serve"].append(asked(options, serve, n, []))
            found["session"].append(bare_session(options, n, rows))
            found["fastapi"].append(asked(options, fastapi, n, ["--json"]))
        for name, rounds in found.items():
            middle = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
            print(f"| {n} | {name} | {middle['samples_per_s']:,.0f} | {middle['p50_ms']:.3f} | {middle.get('p99_ms', 0):.3f} | "
                  f"{middle['cpu_us']:.1f} |", flush=True)
        for name in ("session", "fastapi"):
            for key in ("samples_per_s", "cpu_us"):
                ratios = [ours[key] / theirs[key] for ours, theirs in zip(found["serve"], found[name])]
                print(f"serve / {name}, {key}, {n} samples: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
