#!/usr/bin/env python3
"""`predict` and onnxruntime in turn on the same model, records and threads: from a file of raw records to a file of
scores, both without loading the model. Prints samples/s of each, the ratio within each round, and by how much the
scores differ.

Needs onnx and onnxruntime from PyPI in the Python that runs it.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "export"))
from saved_model import load  # noqa: E402


def inputs(records, config, session):
    """The arrays of raw records by the names of the session's inputs."""
    data = config["layers"][0]
    dense = data["dense"]
    asynchronous = data.get("async_param", {})
    floats = data.get("float_label_dense") or asynchronous.get("is_dense_float") or asynchronous.get("multi_hot_reader")
    values = records[:, 1:1 + dense["dense_dim"]]
    feed, at = {}, 1 + dense["dense_dim"]
    for node in session.get_inputs():
        if node.name == dense["top"]:
            feed[node.name] = np.ascontiguousarray(values.view(np.float32)) if floats else \
                np.log1p(values.view(np.int32).astype(np.float32))
        else:
            feed[node.name] = records[:, at:at + node.shape[1]].astype(np.int64)
            at += node.shape[1]
    return feed


def run_onnx(session, config, path, batch, out):
    dense = config["layers"][0]["dense"]
    words = 1 + dense["dense_dim"] + sum(n.shape[1] for n in session.get_inputs() if n.name != dense["top"])
    begin = time.perf_counter()
    records = np.fromfile(path, np.uint32).reshape(-1, words)
    scores = np.concatenate([session.run(None, inputs(records[i:i + batch], config, session))[0]
                             for i in range(0, len(records), batch)])
    np.save(out, scores)
    return len(records) / (time.perf_counter() - begin), scores


def run_predict(options, config, out):
    command = [options.bin + "/predict", "--model", options.model, "--input", options.input, "--out", out,
               "--threads", str(options.threads), "--batch", str(options.batch), *config]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return float(re.search(r"([\d.]+) samples/s", printed).group(1)), np.load(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--config")
    parser.add_argument("--input", required=True, help="raw records")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    more = ["--config", options.config] if options.config else []
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/export_onnx.py"), "--model", options.model,
                        "--out", model, *more], check=True)
        threads = onnxruntime.SessionOptions()
        threads.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(model, threads, providers=["CPUExecutionProvider"])
        config, _ = load(options.model, options.config)
        ours, theirs, apart = [], [], 0.0
        for _ in range(options.rounds):
            rate, scores = run_predict(options, more, os.path.join(folder, "ours.npy"))
            other, their_scores = run_onnx(session, config, options.input, options.batch,
                                           os.path.join(folder, "theirs.npy"))
            ours.append(rate)
            theirs.append(other)
            apart = max(apart, float(np.abs(scores - their_scores).max()))
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(json.dumps({"samples": len(scores), "predict_samples_per_s": round(statistics.median(ours)),
                      "onnxruntime_samples_per_s": round(statistics.median(theirs)),
                      "ratio": round(statistics.median(ratios), 2),
                      "ratios": [round(r, 2) for r in ratios], "largest_difference": apart}))


if __name__ == "__main__":
    main()
