#!/usr/bin/env python3
"""Records how fast `serve` answers at several offered rates, for plot_serve.py:

    serve_figures.py --programs build/release/bin --model demo=checkpoint --model kaggle=other --out serve_figures.json

For each model and request size: one request at a time; the top rate; latencies at shares of the top rate; ten times the top
rate. Runs are short and in turn, and of each the round with the best p99 is kept.
"""
import argparse
import json
import os
import re
import subprocess

SHARES = [0.1, 0.25, 0.5, 0.75, 0.9, 10]
CONNECTIONS = {1: 32, 256: 8}
CROWD = {1: 1000, 256: 200}  # at ten times the top rate, so that requests need not wait for a connection


class Server:
    def __init__(self, options, path):
        self.options = options
        self.process = subprocess.Popen(
            [os.path.join(options.programs, "serve"), "--model", "m=" + path, "--port", "0", "--quiet",
             "--threads", str(options.threads), *options.serve], stdout=subprocess.PIPE, text=True)
        self.port = re.search(r":(\d+)$", self.process.stdout.readline())[1]

    def bench(self, samples, connections, rate):
        text = subprocess.run([os.path.join(self.options.programs, "serve_bench"), "--port", self.port, "--model", "m",
                               "--samples", str(samples), "--connections", str(connections), "--rate", str(rate),
                               "--seconds", str(self.options.seconds), "--warm-up", "0.3"],
                              capture_output=True, text=True, check=True).stdout
        return json.loads(text)


def figures(options, server, samples):
    def best(key, connections, rate, sign=1):
        runs = [server.bench(samples, connections, rate) for _ in range(options.rounds)]
        return min(runs, key=lambda run: sign * run[key])
    top = best("samples_per_s", CONNECTIONS[samples], 0, -1)
    found = {"one_at_a_time": best("p99_ms", 1, 0), "top": top, "shares": {}}
    for share in SHARES:
        connections = CROWD[samples] if share > 1 else 2 * CONNECTIONS[samples]
        found["shares"][str(share)] = best("p99_ms", connections, share * top["requests_per_s"])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("--out", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--serve", action="append", default=[], metavar="OPTION",
                        help="an option of serve, as --serve=--max-queue=512")
    options = parser.parse_args()
    found = {}
    for name, path in (model.split("=", 1) for model in options.model):
        server = Server(options, path)
        try:
            found[name] = {str(samples): figures(options, server, samples) for samples in CONNECTIONS}
        finally:
            server.process.terminate()
            server.process.wait()
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
