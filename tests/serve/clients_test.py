#!/usr/bin/env python3
"""Independent clients query `serve`: tritonclient[http], prometheus_client and curl, unmodified. Run by ctest;
PYTHONPATH names the folder that tools/setup.sh fetched them to."""
import shutil
import subprocess
import time
import unittest

import numpy as np
import tritonclient.http as triton
from prometheus_client.parser import text_string_to_metric_families

from running_server import DENSE, TABLES, Server, enter_folder, evaluation, json_request, json_scores, make_models


def inputs(dense, keys, binary):
    tensors = [triton.InferInput("dense", dense.shape, "FP32"), triton.InferInput("keys", keys.shape, "INT64")]
    for tensor, values in zip(tensors, (dense, keys)):
        tensor.set_data_from_numpy(values, binary_data=binary)
    return tensors


class ClientsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_folder(cls.addClassCleanup)
        make_models()
        cls.server = Server(models=("demo=ck", "clamped"))
        cls.addClassCleanup(cls.server.__exit__)

    def test_tritonclient(self):
        dense, keys, scores = evaluation()
        client = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}")
        self.assertTrue(client.is_server_live() and client.is_server_ready())
        self.assertEqual(client.get_server_metadata()["name"], "hugectr_lite")
        for model in ("demo", "clamped"):
            self.assertTrue(client.is_model_ready(model) and client.is_model_ready(model, "1"))
            self.assertEqual(client.get_model_metadata(model)["name"], model)
        self.assertFalse(client.is_model_ready("other"))
        for binary in (True, False):
            for n in (1, 333):
                output = triton.InferRequestedOutput("score", binary_data=binary)
                result = client.infer("demo", inputs(dense[:n], keys[:n], binary), outputs=[output], request_id="7")
                self.assertEqual(result.as_numpy("score").ravel().tobytes(), scores[:n].tobytes())
                self.assertEqual(result.get_response()["id"], "7")
        result = client.infer("clamped", inputs(dense, keys, True), model_version="1", timeout=10**9)  # no outputs named
        self.assertEqual(result.as_numpy("score").shape, (333, 1))
        with self.assertRaisesRegex(triton.InferenceServerException, r"expected shape \[-1,2\], found \[1,3\]"):
            client.infer("demo", inputs(np.zeros((1, DENSE + 1), np.float32), keys[:1], True))

    def test_tritonclient_reads_configuration_and_statistics(self):
        dense, keys, _ = evaluation()
        client = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}")
        config = client.get_model_config("demo")
        self.assertEqual(config, client.get_model_config("demo", "1"))
        self.assertEqual((config["name"], config["platform"], config["max_batch_size"]), ("demo", "hugectr_lite", 65536))
        self.assertEqual([(t["name"], t["data_type"], t["dims"], t["optional"]) for t in config["input"]],
                         [("dense", "TYPE_FP32", [DENSE], False), ("keys", "TYPE_INT64", [len(TABLES)], False)])
        self.assertEqual([(t["name"], t["data_type"], t["dims"]) for t in config["output"]], [("score", "TYPE_FP32", [1])])
        self.assertEqual(config["dynamic_batching"], {"preferred_batch_size": [256], "max_queue_delay_microseconds": 0})
        self.assertEqual(config["parameters"]["iteration"], {"string_value": "60"})

        def statistics(model="clamped", version=""):
            found, = client.get_inference_statistics(model, version)["model_stats"]
            self.assertEqual((found["name"], found["version"], found["batch_stats"]), ("clamped", "1", []))
            return found
        before, start = statistics(), time.time()
        for n in (1, 7, 300):
            client.infer("clamped", inputs(dense[:n], keys[:n], True))
        with self.assertRaises(triton.InferenceServerException):
            client.infer("clamped", inputs(dense[:2], keys[:3], True))
        with self.assertRaises(triton.InferenceServerException):
            client.infer("clamped", inputs(dense[:2], keys[:2], True), model_version="2")  # not of version 1
        after, seconds = statistics(version="1"), time.time() - start
        self.assertEqual(after["inference_count"] - before["inference_count"], 308)
        self.assertEqual(after["execution_count"] - before["execution_count"], 4)  # 300 samples are two batches
        self.assertTrue(start - 1 < after["last_inference"] / 1000 < start + seconds + 1)

        def rise(name, of):
            return after["inference_stats"][name][of] - before["inference_stats"][name][of]
        for name, count in (("success", 3), ("fail", 1), ("queue", 3), ("compute_input", 3), ("compute_infer", 3),
                            ("compute_output", 3), ("cache_hit", 0), ("cache_miss", 0)):
            self.assertEqual(rise(name, "count"), count, name)
            self.assertTrue(rise(name, "ns") > 0 if count else rise(name, "ns") == 0, name)
        parts = sum(rise(name, "ns") for name in ("queue", "compute_input", "compute_infer", "compute_output"))
        self.assertLessEqual(parts, rise("success", "ns"))
        self.assertLess(rise("success", "ns"), 1e9 * seconds)
        everything = client.get_inference_statistics()["model_stats"]
        self.assertEqual([found["name"] for found in everything], ["clamped", "demo"])
        self.assertEqual(everything[0]["inference_stats"], after["inference_stats"])
        with self.assertRaisesRegex(triton.InferenceServerException, "expected version 1, found"):
            client.get_inference_statistics("demo", "3")

    def test_prometheus_client(self):
        dense, keys, _ = evaluation()
        before = self.metrics()
        self.server.score(json_request(dense[:5], keys[:5]))
        self.server.score(b"{}")
        after = self.metrics()

        def rise(name, **labels):
            key = (name, tuple(sorted(labels.items())))
            return after[key] - before.get(key, 0)
        self.assertEqual(rise("hugectr_lite_requests_total", model="demo"), 1)
        self.assertEqual(rise("hugectr_lite_samples_total", model="demo"), 5)
        self.assertEqual(rise("hugectr_lite_errors_total", status="400"), 1)
        for histogram in ("queue_seconds", "score_seconds", "request_seconds", "batch_samples"):
            self.assertEqual(rise(f"hugectr_lite_{histogram}_count", model="demo"), 1, histogram)
        self.assertEqual(rise("hugectr_lite_batch_samples_sum", model="demo"), 5)

    def metrics(self):
        text = self.server.ask("/metrics")[2].decode()
        return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(text) for sample in family.samples}

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_curl(self):
        dense, keys, scores = evaluation()
        url = f"http://127.0.0.1:{self.server.port}/v2/models/demo/infer"
        body = json_request(np.repeat(dense, 99, 0), np.repeat(keys, 99, 0))  # with Expect: 100-continue
        answer = subprocess.run(["curl", "-sS", "--fail", url, "--data-binary", "@-"], input=body, capture_output=True,
                                check=True).stdout
        self.assertEqual(json_scores(answer).tobytes(), np.repeat(scores, 99).tobytes())


if __name__ == "__main__":
    unittest.main()
