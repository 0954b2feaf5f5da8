#!/usr/bin/env python3
"""The page of `serve` at "/": its example command works as it stands, and its script draws what /metrics says. Run by ctest."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np

from running_server import DENSE, TABLES, Server, enter_folder, json_request, json_scores, make_models, make_text_model, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from pages import HAS_NODE, content, drawn, nodes  # noqa: E402


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        enter_folder(cls.addClassCleanup)
        make_models()

    def page(self, server, **headers):
        status, found, page = server.ask("/", headers=headers)
        self.assertEqual((status, found["Content-Type"]), (200, "text/html; charset=utf-8"))
        return page.decode()

    def commands(self, server, **headers):
        return [text for _, text in nodes(content(self.page(server, **headers)), "pre")]

    def zeros(self, server):
        return server.score(json_request(np.zeros((1, DENSE), np.float32), np.zeros((1, len(TABLES)), np.int64)))[2]

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_example_works_by_copy_and_paste(self):
        with Server() as server:
            command, = self.commands(server)
            answer = subprocess.run(["sh", "-c", command.replace("curl", "curl -sS --fail", 1)], capture_output=True, check=True)
            self.assertEqual(json_scores(answer.stdout).tobytes(), json_scores(self.zeros(server)).tobytes())
            page = self.page(server)
            (_, _, rows, _), = nodes(content(page), "table")
            self.assertIn(["input", "dense", "FP32", "[-1, 2]"], rows)
            self.assertEqual(rows[-1][:2], ["output", "score"])
            self.assertIn(["p.soft", "Version ", ["output", "1"]], nodes(content(page), "p.soft"))
            known = page.replace("http://127", "").replace("'http://www.w3.org/2000/svg'", "")
            self.assertNotRegex(known, "https?:[/]{2}\\w|src=")  # nothing from elsewhere

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_example_has_a_place_for_the_token(self):
        with open("token", "w", encoding="utf-8") as file:
            file.write("secret\n")
        with Server("--token-file", "token") as server:
            self.assertEqual(server.ask("/")[0], 401)
            command, = self.commands(server, Authorization="Bearer secret")
            answer = subprocess.run(["sh", "-c", command.replace("curl", "curl -sS --fail", 1)], capture_output=True, check=True,
                                    env=dict(os.environ, TOKEN="secret"))
            self.assertEqual(json_scores(answer.stdout).shape, (1,))

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_line_of_text_works_by_copy_and_paste(self):
        def command_of(server, path):
            text, zeros = self.commands(server)
            self.assertIn(path, text)
            self.assertIn("/infer", zeros)
            return text
        make_text_model()
        schema = {"header": True, "separator": "\t", "label": {"column": "y", "positive": ["1"]},
                  "dense": [{"column": "big", "transform": "log1p_standardize"}, {"column": "small", "transform": "standardize"}],
                  "categorical": [{"column": "it's"}, {"column": "quoted"},
                                  {"column": "small", "name": "part", "buckets": [0.5]}]}
        with open("odd.tsv", "w", encoding="utf-8") as file:
            file.write("big\tit's\ty\tquoted\tsmall\n")
            file.writelines(f"{i * 1000}\t@it's \\{i % 3} 100%\t{i % 2}\t\"a \"\"b\"\"\t{i % 5}\"\t-0.{i % 7}\n" for i in range(300))
        with open("odd.json", "w", encoding="utf-8") as file:
            json.dump(schema, file)
        run("csv_prep", "--schema", "odd.json", "--train", "odd.tsv", "--val-share", "10%", "--out", "odd", "--write-config", "wdl")
        run("train", "--config", "odd/wdl.json", "--set", "solver.num_epochs=1", "--save", "odd_model", "--with-preparation", "--quiet")
        for model, names, line in (("text", None, "\\d+,c\\d+,d \\d"),
                                   ("odd_model", "big\tit's\tquoted\tsmall", "\\d+\t@it's .{2} 100%\t.a ..b..\t\\d.\t-0.\\d+")):
            with self.subTest(model), Server(models=("demo=" + model,)) as server:
                command = command_of(server, "/v2/models/demo/text")
                if names:
                    self.assertEqual(nodes(content(self.page(server)), "code"), [["code", names]])
                sent = subprocess.run(["sh", "-c", command.replace("curl", "printf '%s|'", 1)], capture_output=True, check=True)
                row = sent.stdout.decode().split("|")[-2]
                self.assertRegex(row, "^" + line + "$")
                answer = subprocess.run(["sh", "-c", command.replace("curl", "curl -sS --fail", 1)], capture_output=True, check=True)
                status, _, score = server.ask("/v2/models/demo/text", row.encode())
                self.assertEqual((status, score), (200, answer.stdout))
                self.assertTrue(0 < float(score) < 1)

    def test_a_host_that_is_no_address_does_not_get_into_the_command(self):
        with Server() as server:
            for host in ("a;rm", "<script>", "$(id)", "a b"):
                self.assertTrue(self.commands(server, Host=host)[0].startswith("curl http://localhost:8080/v2"))
            self.assertTrue(self.commands(server, Host="[::1]:99")[0].startswith("curl http://[::1]:99/v2"))
            self.assertEqual(server.ask("/", method="POST")[0], 405)

    @unittest.skipUnless(HAS_NODE, "skipped: no node")
    def test_the_script_draws_rate_and_latency(self):
        with Server() as server:
            with open("page.html", "w", encoding="utf-8") as file:
                file.write(self.page(server))
            before = server.ask("/metrics")[2].decode()
            for _ in range(10):
                self.zeros(server)
            answers = {"metrics": [before, server.ask("/metrics")[2].decode()], "model": json.loads(server.ask("/v2/models/demo")[2])}
        with open("answers.json", "w", encoding="utf-8") as file:
            json.dump(answers, file)
        main, _ = drawn("page.html", "answers.json")
        self.assertRegex(main, "<output>1, iteration 60, checksum [0-9a-f]{16}</output>")
        self.assertIn("<figcaption>requests/s: 5.00<", main)  # ten requests in two seconds
        p50, p99 = (float(re.search(name + " ([\\d.]+)</span>", main)[1]) for name in ("p50", "p99"))
        self.assertTrue(0 < p50 <= p99, (p50, p99))
        self.assertEqual(len(re.findall(r'<path class="s[01]" d="M[\d.]+,[\d.]+"', main)), 3)
        self.assertIn("<pre>curl https://proxy/v2", main)


if __name__ == "__main__":
    unittest.main()
