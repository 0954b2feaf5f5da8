#!/usr/bin/env python3
"""The page of `serve` at "/": its example command works as it stands, and its script draws what /metrics says. Run by ctest."""
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from running_server import DENSE, TABLES, Server, json_request, json_scores, make_models, make_text_model, run

# As much of a browser as the script uses: a section with its elements, two answers of the server, and then the end.
BROWSER = """
const element = () => ({attributes: {}, setAttribute(name, value) { this.attributes[name] = value; }});
const outputs = [element(), element(), element(), element()], paths = [element(), element(), element()];
const figures = [[paths.slice(0, 1), outputs.slice(1, 2)], [paths.slice(1), outputs.slice(2)]].map(([path, output]) =>
  ({querySelectorAll: what => what === 'path' ? path : output}));
const section = {id: 'demo', querySelector: () => outputs[0], querySelectorAll: () => figures};
const pre = {textContent: 'curl http://here/v2'};
globalThis.location = {origin: 'https://proxy'};
globalThis.document = {querySelectorAll: what => what === 'pre' ? [pre] : [section]};
let asked = 0, time = 0;
globalThis.performance = {now: () => 2000 * time++};
globalThis.fetch = async path => ({text: async () => METRICS[asked++], json: async () => METADATA});
globalThis.setTimeout = look => asked < METRICS.length ? look() :
  console.log(JSON.stringify({outputs: outputs.map(o => o.textContent), paths: paths.map(p => p.attributes.d), pre}));
"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        cls.addClassCleanup(folder.cleanup)
        cls.addClassCleanup(os.chdir, before)
        os.chdir(folder.name)
        make_models()

    def page(self, server, **headers):
        status, found, page = server.ask("/", headers=headers)
        self.assertEqual((status, found["Content-Type"]), (200, "text/html; charset=utf-8"))
        return page.decode()

    def zeros(self, server):
        return server.score(json_request(np.zeros((1, DENSE), np.float32), np.zeros((1, len(TABLES)), np.int64)))[2]

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_example_works_by_copy_and_paste(self):
        with Server() as server:
            page = self.page(server)
            command = html.unescape(re.search("<pre>(.*?)</pre>", page, re.DOTALL)[1])
            answer = subprocess.run(["sh", "-c", command.replace("curl", "curl -sS --fail", 1)], capture_output=True, check=True)
            self.assertEqual(json_scores(answer.stdout).tobytes(), json_scores(self.zeros(server)).tobytes())
            for words in ("<td>dense</td><td>FP32</td><td>[-1, 2]</td>", "<td>score</td>", "<output>1</output>"):
                self.assertIn(words, page)
            self.assertNotRegex(page.replace("http://127", ""), "https?:[/]{2}\\w|src=")  # nothing from elsewhere

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_example_has_a_place_for_the_token(self):
        with open("token", "w", encoding="utf-8") as file:
            file.write("secret\n")
        with Server("--token-file", "token") as server:
            self.assertEqual(server.ask("/")[0], 401)
            page = self.page(server, Authorization="Bearer secret")
            command = html.unescape(re.search("<pre>(.*?)</pre>", page, re.DOTALL)[1])
            answer = subprocess.run(["sh", "-c", command.replace("curl", "curl -sS --fail", 1)], capture_output=True, check=True,
                                    env=dict(os.environ, TOKEN="secret"))
            self.assertEqual(json_scores(answer.stdout).shape, (1,))

    @unittest.skipUnless(shutil.which("curl"), "skipped: no curl")
    def test_the_line_of_text_works_by_copy_and_paste(self):
        def command_of(server, path):
            page = self.page(server)
            self.assertIn(path, page)
            found = re.findall("<pre>(.*?)</pre>", page, re.DOTALL)
            self.assertEqual(len(found), 2)
            return html.unescape(found[0])
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
                    self.assertIn(f"of the columns <code>{names}</code>", html.unescape(self.page(server)))
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
                self.assertIn("<pre>curl http://localhost:8080/v2", self.page(server, Host=host))
            self.assertIn("<pre>curl http://[::1]:99/v2", self.page(server, Host="[::1]:99"))
            self.assertEqual(server.ask("/", method="POST")[0], 405)

    @unittest.skipUnless(shutil.which("node"), "skipped: no node")
    def test_the_script_draws_rate_and_latency(self):
        with Server() as server:
            script = re.search("<script>(.*?)</script>", self.page(server), re.DOTALL)[1]
            before = server.ask("/metrics")[2].decode()
            for _ in range(10):
                self.zeros(server)
            after = server.ask("/metrics")[2].decode()
            metadata = json.loads(server.ask("/v2/models/demo")[2])
        with open("page.js", "w", encoding="utf-8") as file:
            file.write(f"const METRICS = {json.dumps([before, after])}, METADATA = {json.dumps(metadata)};{BROWSER}{script}")
        found = json.loads(subprocess.run(["node", "page.js"], capture_output=True, check=True).stdout)
        version, rate, p50, p99 = found["outputs"]
        self.assertRegex(version, "^1, iteration 60, checksum [0-9a-f]{16}$")
        self.assertEqual(float(rate), 5)  # ten requests in two seconds
        self.assertTrue(0 < float(p50) <= float(p99), (p50, p99))
        for path in found["paths"]:
            self.assertRegex(path, r"^M300 [\d.]+$")
        self.assertEqual(found["pre"]["textContent"], "curl https://proxy/v2")


if __name__ == "__main__":
    unittest.main()
