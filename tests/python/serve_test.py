#!/usr/bin/env python3
"""`python3 -m hugectr_lite.serve` starts the program, which tests/serve asks. Run by ctest; PYTHONPATH names the package."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import hugectr_lite as hl
from hugectr_lite import serve
from small_model import config, features, samples, write_files

LIMIT = 600  # seconds that an answer may take on a busy machine
COMMAND = [sys.executable, "-m", "hugectr_lite.serve", "--deadline-ms", "3600000", "--request-s", "3600"]


@unittest.skipUnless(serve.program(), "skipped: the program serve is not there")
class ServeTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)

    def test_scores_are_those_of_the_predictor_to_the_bit(self):
        write_files(".")
        hl.Trainer(config()).save("checkpoint")
        _, dense, keys = samples(50, 3)
        dense = features(dense)
        server = subprocess.Popen([*COMMAND, "--model", "checkpoint", "--port", "0", "--threads", "1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            port = re.search(r":(\d+)$", server.stdout.readline())[1]
            body = {"inputs": [
                {"name": "dense", "shape": dense.shape, "datatype": "FP32", "data": dense.tolist()},
                {"name": "keys", "shape": keys.shape, "datatype": "INT64", "data": keys.tolist()}]}
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/checkpoint/infer", json.dumps(body).encode(),
                                            timeout=LIMIT)
            scores = json.load(answer)["outputs"][0]["data"]
            self.assertEqual(scores, hl.Predictor("checkpoint", threads=1).predict(dense, keys).tolist())
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=LIMIT)
        self.assertEqual(server.returncode, 0)

    def test_what_cannot_be_served_is_an_error(self):
        failed = subprocess.run([*COMMAND, "--model", "none"], capture_output=True, text=True, check=False, timeout=LIMIT)
        self.assertEqual(failed.returncode, 3)
        self.assertIn("none: expected a checkpoint or exported weights, found nothing", failed.stderr)


class MissingProgramTest(unittest.TestCase):
    def test_a_missing_program_is_named(self):
        code = "import sys; from hugectr_lite import serve; serve.program = lambda: None; sys.exit(serve.main())"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LIMIT)
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected the program serve next to the package or on PATH, found none", result.stderr)


if __name__ == "__main__":
    unittest.main()
