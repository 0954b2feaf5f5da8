#!/usr/bin/env python3
"""`predict` and onnxruntime in turn on the same model, records and threads. Three questions, each with the ratio within
each round, ours over theirs:

  process   from exec to a file of scores: `predict`, and a Python that loads onnxruntime, the model, and scores
  file      from records to a file of scores without loading the model, as each reports it: a new `predict` whose matrix
            products make their machine code first, and one onnxruntime session for all rounds
  arrays    from arrays to scores in one process that has done so before: hugectr_lite.Predictor, and a session

Prints samples/s of each and by how much the scores differ. Needs onnx and onnxruntime from PyPI in the Python that runs
it, and for `arrays` the package's module built for that Python.
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


def records_of(path, config, session):
    dense = config["layers"][0]["dense"]
    words = 1 + dense["dense_dim"] + sum(n.shape[1] for n in session.get_inputs() if n.name != dense["top"])
    return np.fromfile(path, np.uint32).reshape(-1, words)


def run_onnx(session, config, path, batch, out):
    begin = time.perf_counter()
    records = records_of(path, config, session)
    scores = np.concatenate([session.run(None, inputs(records[i:i + batch], config, session))[0]
                             for i in range(0, len(records), batch)])
    np.save(out, scores)
    return len(records) / (time.perf_counter() - begin), scores


def predict_command(options, config, out):
    return [options.bin + "/predict", "--model", options.model, "--input", options.input, "--out", out, "--threads",
            str(options.threads), "--batch", str(options.batch), *config]


def run_predict(command, out):
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return float(re.search(r"([\d.]+) samples/s", printed).group(1)), np.load(out)


# From exec to a file of scores.
PROCESS = """
import sys
sys.path.insert(0, {here!r})
import onnxruntime
from predict_bench import load, run_onnx, session_of
config, _ = load({model!r}, {config!r})
run_onnx(session_of({onnx!r}, {threads}), config, {input!r}, {batch}, {out!r})
"""


def session_of(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def seconds_of(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def run_arrays(score, feed, samples):
    begin = time.perf_counter()
    score(feed)
    return samples / (time.perf_counter() - begin)


def predictor_of(options):
    """None where the package cannot be loaded."""
    sys.path.insert(0, os.path.join(os.path.dirname(options.bin), "python"))
    try:
        import hugectr_lite
    except ImportError as error:
        print(f"arrays: left out: {error}", file=sys.stderr)
        return None
    return hugectr_lite.Predictor(options.model, options.config, threads=options.threads, batch=options.batch)


def summary(ours, theirs):
    ratios = [a / b for a, b in zip(ours, theirs)]
    return {"ours": round(statistics.median(ours)), "onnxruntime": round(statistics.median(theirs)),
            "ratio": round(statistics.median(ratios), 2), "ratios": [round(r, 2) for r in ratios]}


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
        session = session_of(model, options.threads)
        config, _ = load(options.model, options.config)
        predictor, names = predictor_of(options), [n.name for n in session.get_inputs()]
        dense = config["layers"][0]["dense"]["top"]
        ours_file, theirs_file = os.path.join(folder, "ours.npy"), os.path.join(folder, "theirs.npy")
        process = [sys.executable, "-c", PROCESS.format(
            here=os.path.dirname(os.path.abspath(__file__)), model=options.model, config=options.config, onnx=model,
            threads=options.threads, input=options.input, batch=options.batch, out=theirs_file)]
        program = predict_command(options, more, ours_file)
        found = {"process": ([], []), "file": ([], []), "arrays": ([], [])}
        apart = 0.0
        for _ in range(options.rounds):
            rate, scores = run_predict(program, ours_file)
            other, their_scores = run_onnx(session, config, options.input, options.batch, theirs_file)
            apart = max(apart, float(np.abs(scores - their_scores).max()))
            found["file"][0].append(rate)
            found["file"][1].append(other)
            found["process"][0].append(len(scores) / seconds_of(program))
            found["process"][1].append(len(scores) / seconds_of(process))
            if predictor is None:
                continue
            feed = inputs(records_of(options.input, config, session), config, session)
            keys = np.concatenate([feed[n] for n in names if n != dense], 1)
            batches = [{n: v[i:i + options.batch] for n, v in feed.items()} for i in range(0, len(keys), options.batch)]
            found["arrays"][0].append(run_arrays(lambda f: predictor.predict(f[dense], keys), feed, len(keys)))
            found["arrays"][1].append(run_arrays(lambda _: [session.run(None, b) for b in batches], feed, len(keys)))
    print(json.dumps({"samples": len(scores), "largest_difference": apart,
                      **{name: summary(*rates) for name, rates in found.items() if rates[0]}}, indent=1))


if __name__ == "__main__":
    main()
