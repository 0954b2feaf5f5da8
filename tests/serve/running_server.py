"""`serve` as a process, on a model that `train` made; and requests to it."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from small_model import DENSE, TABLES, config, features, samples, write_files  # noqa: E402

LIMIT = 600  # seconds that an answer may take on a busy machine
# The server's own limits, where a test is not about them: no machine is so slow that it meets one.
LIMITS = {"--deadline-ms": "3600000", "--request-s": "3600", "--idle-s": "86400", "--drain-s": "3600"}
FOREVER = ("--max-delay-us", "3600000000", "--max-batch", "8")  # batches of fewer samples wait until the server drains


def run(program, *arguments):
    subprocess.run([os.environ["HLITE_" + program.upper()], *arguments], check=True, capture_output=True, timeout=LIMIT)


def enter_folder(at_end):
    """Works in a new folder until at_end, addCleanup or addClassCleanup of a test, leaves and removes it."""
    folder, before = tempfile.TemporaryDirectory(), os.getcwd()
    at_end(folder.cleanup)
    at_end(os.chdir, before)
    os.chdir(folder.name)


def make_models():
    """In the working directory: ck, and clamped, whose unknown keys are replaced; scores.npy, those of ck."""
    write_files(".")
    run("train", "--config", "config.json", "--save", "ck", "--quiet")
    run("train", "--config", "config.json", "--save", "clamped", "--quiet", "--set", "layers.data.key_policy=clamp")
    run("predict", "--model", "ck", "--input", "eval.bin", "--out", "scores.npy", "--quiet")


class ModelFolder:
    """setUpModule() and tearDownModule(): a working directory with what make_models() makes."""

    def set_up(self):
        self.folder, self.before = tempfile.TemporaryDirectory(), os.getcwd()
        os.chdir(self.folder.name)
        make_models()

    def tear_down(self):
        os.chdir(self.before)
        self.folder.cleanup()


def make_text_model():
    """In the working directory: lines.csv, without labels, and text, a model with the preparation of such lines."""
    random = np.random.default_rng(4)

    def lines(n, values):
        return [f"{random.integers(0, 90)},{'' if i % 7 == 0 else f'c{random.integers(0, values)}'},\"d {random.integers(0, 5)}\""
                for i in range(n)]
    for name, values in (("train", 20), ("val", 20)):
        with open(name + ".csv", "w", encoding="utf-8") as file:
            file.writelines(f"{int(i % 3 == 0)},{line}\n" for i, line in enumerate(lines(300, values)))
    with open("lines.csv", "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines(100, 30))  # some of unknown categories
    with open("schema.json", "w", encoding="utf-8") as file:
        json.dump({"label": {"column": 0, "positive": ["1"]},
                   "dense": [{"column": 1, "name": "n", "transform": "log1p_standardize"}],
                   "categorical": [{"column": 2, "name": "c"}, {"column": 3, "name": "d"}]}, file)
    run("csv_prep", "--schema", "schema.json", "--train", "train.csv", "--val", "val.csv", "--out", "data")
    text = config(batchsize_eval=300, eval_batches=1)
    data, embedding = text["layers"][:2]
    data.update(source="data/train.bin", eval_source="data/val.bin", num_samples=300, eval_num_samples=300,
                float_label_dense=True)
    data["dense"]["dense_dim"] = 1
    data["sparse"][0].update(slot_num=2, max_feature_num_per_sample=2)
    embedding["sparse_embedding_hparam"]["slot_size_array"] = "data/manifest.json"
    with open("text.json", "w", encoding="utf-8") as file:
        json.dump(text, file)
    run("train", "--config", "text.json", "--save", "text", "--with-preparation", "--quiet")
    run("predict", "--model", "text", "--input", "lines.csv", "--no-label", "--out", "text.npy", "--quiet")


def peak_memory(server):
    """In MB, without what a sanitizer takes: None there."""
    with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as maps:
        if re.search(r"lib[at]san", maps.read()):
            return None
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) / 1024


def evaluation():
    """(dense, keys, scores) of the samples that `predict` scored."""
    _, dense, keys = samples(333, 2)
    return features(dense), keys.astype(np.int64), np.load("scores.npy")


def tensors(dense, keys):
    return [{"name": "dense", "shape": list(dense.shape), "datatype": "FP32", "data": dense.ravel().tolist()},
            {"name": "keys", "shape": list(keys.shape), "datatype": "INT64", "data": keys.tolist()}]


def json_request(dense, keys, **more):
    return json.dumps({"inputs": tensors(dense, keys), **more}).encode()


def binary_request(dense, keys):
    """(headers, body)"""
    head = json.dumps({
        "inputs": [{"name": "dense", "shape": dense.shape, "datatype": "FP32",
                    "parameters": {"binary_data_size": dense.nbytes}},
                   {"name": "keys", "shape": keys.shape, "datatype": "INT64",
                    "parameters": {"binary_data_size": keys.nbytes}}],
        "outputs": [{"name": "score", "parameters": {"binary_data": True}}]}).encode()
    return {"Inference-Header-Content-Length": str(len(head))}, head + dense.tobytes() + keys.tobytes()


def json_scores(answer):
    return np.array(json.loads(answer)["outputs"][0]["data"], np.float32)


def binary_scores(headers, answer):
    return np.frombuffer(answer[int(headers["Inference-Header-Content-Length"]):], np.float32)


class Server:
    def __init__(self, *arguments, models=("demo=ck",)):
        models = [word for model in models for word in ("--model", model)]
        limits = [word for name, value in LIMITS.items() if name not in arguments for word in (name, value)]
        self.process = subprocess.Popen([os.environ["HLITE_SERVE"], *models, "--port", "0", "--threads", "1", *limits,
                                         *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise AssertionError(line + self.process.stderr.read())
        self.port = int(found[1])
        by_grpc = re.search(r"gRPC on port (\d+)", line)
        self.grpc_port = int(by_grpc[1]) if by_grpc else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def stop(self):
        """SIGTERM; returns exit code, standard output and standard error."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, err

    def metric(self, name):
        """The sum of its values."""
        values = re.findall(rf"^hugectr_lite_{name}(?:\{{.*\}})? (\S+)$", self.ask("/metrics")[2].decode(), re.MULTILINE)
        return sum(map(float, values))

    def wait_for_metric(self, name, value):
        wait_until(lambda: self.metric(name) == value, f"{name} to be {value}")

    def connection(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT))

    def ask(self, path, body=None, headers=None, method=None):
        """(status, headers, body)"""
        with self.connection() as connection:
            return ask_on(connection, path, body, headers, method)

    def score(self, body, headers=None):
        return self.ask("/v2/models/demo/infer", body, headers)

    def raw(self, data, end=False):
        """What is answered to bytes, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as connection:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(1 << 16):
                answer += piece
            return answer.decode(errors="replace")


def wait_until(reached, what):
    """Until reached() is true. The limit only ends a test that hangs."""
    deadline = time.monotonic() + LIMIT
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {LIMIT} s for {what}")
        time.sleep(0.005)


def ask_on(connection, path, body=None, headers=None, method=None):
    connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def in_threads(n, work):
    """work(i) for i in range(n), all at the same time; the first failure is raised."""
    failures = []

    def one(i):
        try:
            work(i)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
