#!/usr/bin/env python3
"""The program `serve` over loopback: scores to the bit, refusals, limits, draining. Run by ctest, which names the programs."""
import json
import os
import random
import socket
import subprocess
import threading
import time
import unittest

import numpy as np

from running_server import (DENSE, FOREVER, LIMIT, TABLES, ModelFolder, Server, ask_on, binary_request, binary_scores, config,
                            evaluation, in_threads, json_request, json_scores, make_text_model, run, tensors, wait_until)

INFER = "/v2/models/demo/infer"
MODELS = ModelFolder()
setUpModule, tearDownModule = MODELS.set_up, MODELS.tear_down


class ScoresTest(unittest.TestCase):
    def test_scores_are_those_of_predict_to_the_bit_whatever_they_are_batched_with(self):
        dense, keys, scores = evaluation()
        with Server("--max-batch", "64", "--max-delay-us", "500") as server:
            self.assertTrue((json_scores(server.score(json_request(dense, keys))[2]) == scores).all())

            def client(seed):
                draw = random.Random(seed)
                with server.connection() as connection:
                    for _ in range(12):
                        n = draw.choice([1, 1, 1, 2, 7, 64, 200])
                        rows = np.array(draw.choices(range(len(scores)), k=n))
                        if draw.random() < 0.5:
                            headers, body = binary_request(dense[rows], keys[rows])
                            status, headers, answer = ask_on(connection, INFER, body, headers)
                            found = binary_scores(headers, answer)
                        else:
                            status, headers, answer = ask_on(connection, INFER, json_request(dense[rows], keys[rows]))
                            found = json_scores(answer)
                        self.assertEqual(status, 200)
                        self.assertEqual(found.tobytes(), scores[rows].tobytes())
            in_threads(16, client)

    def test_what_all_candidates_share_is_sent_once(self):
        dense, keys, _ = evaluation()
        with Server() as server:
            together = json_scores(server.score(json_request(dense[:1], keys[:9]))[2])
            apart = json_scores(server.score(json_request(np.repeat(dense[:1], 9, 0), keys[:9]))[2])
        self.assertEqual(together.tobytes(), apart.tobytes())

    def test_answers_name_model_version_and_request(self):
        dense, keys, scores = evaluation()
        with Server() as server:
            answer = json.loads(server.score(json_request(dense[:2], keys[:2], id="a\"é"))[2])
            self.assertEqual({key: answer[key] for key in ("model_name", "model_version", "id")},
                             {"model_name": "demo", "model_version": "1", "id": "a\"é"})
            self.assertEqual(answer["outputs"][0], {"name": "score", "datatype": "FP32", "shape": [2, 1],
                                                    "data": [float(s) for s in scores[:2]]})
            inputs = json.loads(server.ask("/v2/models/demo")[2])["inputs"]
            self.assertEqual(inputs, [{"name": "dense", "datatype": "FP32", "shape": [-1, DENSE]},
                                      {"name": "keys", "datatype": "INT64", "shape": [-1, len(TABLES)],
                                       "parameters": {"rows": TABLES}}])
            self.assertEqual(json.loads(server.ask("/v2")[2])["extensions"], ["binary_tensor_data", "model_configuration", "model_repository", "statistics"])
            for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/demo/ready", "/v2/models/demo/versions/1/ready"):
                self.assertEqual(server.ask(path)[0], 200, path)
                self.assertEqual(server.ask(path, method="HEAD")[0], 200, path)

    def test_lines_of_text_go_through_the_preparation(self):
        make_text_model()
        with open("lines.csv", encoding="utf-8") as file:
            lines = file.read().splitlines()
        scores = np.load("text.npy")
        unknown = sum(int(line.split(",")[1][1:] or 0) >= 20 for line in lines)
        self.assertGreater(unknown, 9)

        def text(elements, **more):
            return json.dumps({"inputs": [{"name": "text", "shape": [len(elements), 1], "datatype": "BYTES", "data": elements,
                                           **more}]}).encode()
        with Server(models=("demo=text",)) as server:
            inputs = json.loads(server.ask("/v2/models/demo")[2])["inputs"]
            self.assertEqual(inputs[-1], {"name": "text", "datatype": "BYTES", "shape": [-1, 1]})
            self.assertEqual(json_scores(server.score(text(lines))[2]).tobytes(), scores.tobytes())
            self.assertIn(f'unknown_keys_total{{model="demo"}} {unknown}\n', server.ask("/metrics")[2].decode())
            self.assertEqual(json_scores(server.score(text(lines[7:8]))[2])[0], scores[7])
            status, headers, answer = server.ask("/v2/models/demo/text", "\r\n".join(lines).encode())
            self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; charset=utf-8"))
            self.assertEqual(np.array(answer.split(), np.float32).tobytes(), scores.tobytes())
            with_labels = "\n".join("1," + line for line in lines)
            for body in ("\ufeff" + "\n".join(lines), with_labels, "\ufeff" + with_labels):
                answer = server.ask("/v2/models/demo/text", body.encode())[2]
                self.assertEqual(np.array(answer.split(), np.float32).tobytes(), scores.tobytes())
            self.assertEqual(json_scores(server.score(text(["\ufeff" + lines[7], "0," + lines[8]]))[2]).tolist(),
                             scores[7:9].tolist())
            for words, body in (("text 0: expected at most 4 columns as in the training file, found 7", b"1,c1,d 0" * 2 + b",1,c1"),
                                ("text 0: expected a row, found the names of the columns", b"n,c,d\n" + lines[0].encode()),
                                ("expected lines of text, found an empty body", b""),
                                ("text 1: expected the columns of a row, found a blank line", lines[0].encode() + b"\n\n"),
                                ("text 0: expected at least 3 columns", b"1,2")):
                status, _, answer = server.ask("/v2/models/demo/text", body)
                self.assertEqual(status, 400)
                self.assertIn(words, answer.decode())
            self.assertEqual(server.ask("/v2/models/demo/text")[0], 405)
            for words, body in (("text 1: expected at least 3 columns", text([lines[0], "1,2"])),
                                ("text 1: expected at most 4 columns as in the training file, found 5", text([lines[0], "1,2,3,4,5"])),
                                ("text 0: expected a row, found the names of the columns", text(["n,c,d", lines[0]])),
                                ("text 0: column 0 (n): expected a finite number", text(["x,c1,d"])),
                                ("text 0: expected the columns of a row, found a blank line", text([""])),
                                ("expected 1 elements for shape [1,1], found 2", text(lines[:2], shape=[1, 1])),
                                ('input "text": data: expected a string, found a number', text([1]))):
                status, _, answer = server.score(body)
                self.assertEqual(status, 400)
                self.assertIn(words, json.loads(answer)["error"])

    def test_configuration_and_statistics_are_asked_for_by_get(self):
        dense, keys, _ = evaluation()
        with Server() as server:
            server.score(json_request(dense[:3], keys[:3]))
            found, = json.loads(server.ask("/v2/models/stats")[2])["model_stats"]
            self.assertEqual((found["name"], found["inference_count"], found["execution_count"]), ("demo", 3, 1))
            for path in ("/v2/models/demo/config", "/v2/models/demo/stats", "/v2/models/demo/versions/1/stats", "/v2/models/stats"):
                self.assertEqual(server.ask(path, method="HEAD")[0], 200, path)
                self.assertEqual(server.ask(path, b"{}")[0], 405, path)
            for path in ("/v2/models/demo/versions/2/config", "/v2/models/other/stats", "/v2/models/demo/statistics"):
                self.assertEqual(server.ask(path)[0], 404, path)

    def test_unknown_keys_are_counted(self):
        with Server(models=("demo=clamped",)) as server:
            status, _, _ = server.score(json_request(np.zeros((2, DENSE), np.float32), np.full((2, 3), 10**6)))
            self.assertEqual(status, 200)
            self.assertIn('unknown_keys_total{model="demo"} 6', server.ask("/metrics")[2].decode())


class RefusalsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-body-mb", "1")
        cls.addClassCleanup(cls.server.__exit__)

    def refused(self, status, words, path=INFER, body=None, headers=None, method=None):
        with self.subTest(words):
            found, _, answer = self.server.ask(path, body, headers, method)
            self.assertEqual(found, status, answer)
            self.assertIn(words, json.loads(answer)["error"])

    def test_requests_that_mean_nothing_are_refused_with_what_was_expected(self):
        dense, keys = np.zeros((2, DENSE), np.float32), np.ones((2, 3), np.int64)
        good = tensors(dense, keys)

        def changed(at, **more):
            return json.dumps({"inputs": [{**t, **more} if i == at else t for i, t in enumerate(good)]}).encode()
        headers, binary = binary_request(dense, keys)
        length = int(headers["Inference-Header-Content-Length"])
        for words, body, more in [
                ("expected JSON", b"{", {}),
                ("expected JSON", b"\xff\xfe", {}),
                ("expected JSON", b"[" * 1000 + b"]" * 1000, {}),
                ("expected JSON", b"", {}),
                ("request: expected an object, found an array", b"[]", {}),
                ('"inputs" is required', b"{}", {}),
                ("inputs: expected an array, found a number", b'{"inputs": 1}', {}),
                ('expected one "inputs", found two', b'{"inputs": [], "inputs": []}', {}),
                ('expected input "dense", found none', b'{"inputs": []}', {}),
                ('expected input "keys", found none', json.dumps({"inputs": good[:1]}).encode(), {}),
                ('inputs[0]: expected an input of the model (dense, keys), found "denes"', changed(0, name="denes"), {}),
                ("expected each input once", json.dumps({"inputs": good + good[:1]}).encode(), {}),
                ('input "dense": expected datatype FP32, found "FP64"', changed(0, datatype="FP64"), {}),
                ('input "keys": expected datatype INT64 or INT32 or UINT32, found "FP32"', changed(1, datatype="FP32"), {}),
                ('input "dense": expected shape [-1,2], found [2,3]', changed(0, shape=[2, 3]), {}),
                ('input "dense": expected shape [-1,2], found [4]', changed(0, shape=[4]), {}),
                ("expected sizes of at least 0, found -2", changed(0, shape=[-2, 2]), {}),
                ("expected data for shape", changed(0, shape=[2**60, 2]), {}),
                ("expected 4 elements for shape [2,2], found 3", changed(0, data=[1, 2, 3]), {}),
                ('input "dense": data: expected numbers, found a string', changed(0, data=[1, 2, 3, "4"]), {}),
                ('input "keys": data: expected whole numbers, found a number', changed(1, data=[1.5] * 6), {}),
                ("feature 1: expected a finite value, found inf", changed(0, data=[0, 1e300, 0, 0]), {}),
                ("keys: sample 0, key of slot 1: expected a key below 5, the rows of its table, found 5",
                 changed(1, data=[0, 5, 0, 0, 0, 0]), {}),
                ('"data" or binary_data_size is required', json.dumps({"inputs": [{
                    key: value for key, value in good[0].items() if key != "data"}]}).encode(), {}),
                ("found both", changed(0, parameters={"binary_data_size": 16}), {}),
                ("expected at least 1 sample", json.dumps({"inputs": tensors(dense[:0], keys[:0])}).encode(), {}),
                ("or 1 for all, found 2", json.dumps({"inputs": tensors(dense, np.ones((3, 3), int))}).encode(), {}),
                ('outputs: expected "score", found "scores"',
                 json.dumps({"inputs": good, "outputs": [{"name": "scores"}]}).encode(), {}),
                ("expected a number of bytes, found \"x\"", binary, {"Inference-Header-Content-Length": "x"}),
                ("expected at most the body's", binary, {"Inference-Header-Content-Length": str(10**6)}),
                ("of at most the", binary[:-1], headers),
                ("found 1 after the last", binary + b"x", headers),
                ("expected 16 bytes for shape [2,2], found 17",
                 binary[:length].replace(b'size": 16', b'size": 17') + binary[length:], headers)]:
            self.refused(400, words, body=body, headers=more)
        self.refused(415, "Content-Encoding: expected none, found gzip", body=b"{}", headers={"Content-Encoding": "gzip"})
        self.refused(404, 'expected a model that is served (demo), found "demon"', path="/v2/models/demon/infer", body=b"{}")
        self.refused(404, 'expected version 1, found "2"', path="/v2/models/demo/versions/2")
        self.refused(404, "expected a path of KServe v2", path="/v3")
        self.refused(405, "expected POST, found GET", path=INFER)
        self.refused(405, "expected GET, found DELETE", path="/v2/models/demo", method="DELETE")

    def test_scores_that_are_no_numbers_are_an_error_of_the_model(self):
        squares = config()
        squares["layers"].insert(2, {"name": "square", "type": "ElementwiseMultiply", "bottom": ["dense", "dense"],
                                     "top": "squared"})
        squares["layers"][3]["bottom"] = "squared"
        with open("squares.json", "w", encoding="utf-8") as file:
            json.dump(squares, file)
        run("train", "--config", "squares.json", "--save", "squares", "--quiet")
        dense, keys, _ = evaluation()
        dense = dense[:1].copy()
        with Server(models=("demo=squares",)) as server:
            for headers, body in ((None, json_request(dense, keys[:1])), binary_request(dense, keys[:1])):
                self.assertEqual(server.score(body, headers)[0], 200)
            dense[:] = 3e38  # its square is infinite, and weights of both signs make NaN of that
            for headers, body in ((None, json_request(dense, keys[:1])), binary_request(dense, keys[:1])):
                status, _, answer = server.score(body, headers)
                self.assertEqual((status, json.loads(answer)),
                                 (500, {"error": "the model gives scores that are NaN or infinite"}))

    def test_bytes_that_are_no_request_are_refused(self):
        post = "POST /v2/models/demo/infer HTTP/1.1\r\nHost: a\r\n"
        for words, data, end in [
                ("400", b"\x16\x03\x01 a TLS hello", True),
                ("400", b"GET / HTTP/9.9\r\n\r\n", False),
                ("400", (post + "Content-Length: many\r\n\r\n").encode(), False),
                ("413", (post + "Content-Length: 99999999\r\n\r\n").encode(), False),
                ("found Content-Length: 99999999", (post + "Content-Length: 99999999\r\n\r\n").encode(), False),
                ("413", (post + "Transfer-Encoding: chunked\r\n\r\n200000\r\n").encode() + b" " * 0x200000, False),
                ("431", (post + "A: " + "a" * 20000 + "\r\n\r\n").encode(), False),
                ("found its end after 3 bytes", (post + "Content-Length: 9\r\n\r\nabc").encode(), True)]:
            with self.subTest(words):
                answer = self.server.raw(data, end)
                self.assertTrue(answer.startswith("HTTP/1.1 4"), answer)
                self.assertIn(words, answer)
                self.assertIn('"error"', answer)

    def test_a_slow_sender_is_refused_and_stops_nobody(self):
        head = b"POST /v2/models/demo/infer HTTP/1.1\r\nContent-Length: %d\r\n\r\n"
        dense, keys, scores = evaluation()
        body = json_request(dense[:1], keys[:1])
        answers = []
        with Server("--request-s", "1") as server:
            # What is sent at once has come at once, however slow the machine is.
            threads = [threading.Thread(target=lambda: answers.append(server.raw(head % 9 + b"ab"))) for _ in range(5)]
            for thread in threads:
                thread.start()
            self.assertIn(str(float(scores[0])), server.raw(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") %
                                                            len(body) + body))
            for thread in threads:
                thread.join()
        self.assertEqual(len(answers), 5)
        for answer in answers:
            self.assertTrue(answer.startswith("HTTP/1.1 408"), answer)
            self.assertIn("within 1000 ms, found 2 bytes", answer)

    def test_connections_may_be_used_as_http_allows(self):
        dense, keys, scores = evaluation()
        body = json_request(dense[:1], keys[:1])
        head = b"POST /v2/models/demo/infer HTTP/1.%d\r\nHost: a\r\n%s"
        whole = head % (1, b"Content-Length: %d\r\n\r\n" % len(body)) + body
        last = head % (1, b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        self.assertEqual(self.server.raw(whole + whole + last).count(str(float(scores[0]))), 3)  # pipelined
        self.assertIn(str(float(scores[0])), self.server.raw(head % (0, b"Content-Length: %d\r\n\r\n" % len(body)) + body))
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 50]), body[i:i + 50]) for i in range(0, len(body), 50))
        self.assertIn(str(float(scores[0])), self.server.raw(
            head % (1, b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n") + chunks + b"0\r\n\r\n"))
        expecting = head % (1, b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        answer = self.server.raw(expecting + body)
        self.assertTrue(answer.startswith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"), answer)


class OperationsTest(unittest.TestCase):
    def test_a_full_queue_and_a_missed_deadline_are_told(self):
        dense, keys, _ = evaluation()
        with Server("--max-queue", "2", *FOREVER) as server:
            queued = []
            asking = [threading.Thread(target=lambda: queued.append(server.score(json_request(dense[:1], keys[:1]))[0]))
                      for _ in range(2)]
            for thread in asking:
                thread.start()
            server.wait_for_metric("queued_samples", 2)
            for _ in range(2):
                status, headers, _ = server.score(json_request(dense[:1], keys[:1]))
                self.assertEqual((status, headers.get("Retry-After")), (503, "1"))
            code, _, err = server.stop()
            for thread in asking:
                thread.join()
            self.assertEqual((code, queued), (0, [200, 200]), err)
        with Server("--max-delay-us", "400000") as server:  # the time of the request is over before that of the batch
            status, _, answer = server.score(json_request(dense[:1], keys[:1], parameters={"timeout": 1000}))
            self.assertEqual(status, 504)
            self.assertIn("expected to be scored within 1 ms, found a queue of", json.loads(answer)["error"])

    def test_sigterm_answers_what_has_begun(self):
        dense, keys, scores = evaluation()
        with Server("--access-log", *FOREVER) as server:
            answers = []
            asking = threading.Thread(target=lambda: answers.append(server.score(json_request(dense[:1], keys[:1]))))
            with server.connection() as idle:
                idle.connect()
                asking.start()
                server.wait_for_metric("queued_samples", 1)
                time.sleep(0.11)  # that it waited shows in the log
                code, out, err = server.stop()
                asking.join()
            self.assertEqual((code, answers[0][0]), (0, 200), err)
            self.assertEqual(answers[0][1]["Connection"], "close")
            self.assertEqual(json_scores(answers[0][2])[0], scores[0])
            line = next(line for line in map(json.loads, out.splitlines()) if line["method"] == "POST")
            self.assertEqual((line["method"], line["path"], line["status"]), ("POST", INFER, 200))
            self.assertGreater(line["ms"], 100)
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", server.port), timeout=5)

    def test_connections_beyond_the_limit_are_refused(self):
        with Server("--max-connections", "2") as server:
            with socket.create_connection(("127.0.0.1", server.port)), socket.create_connection(("127.0.0.1", server.port)):
                answer = server.raw(b"GET /v2 HTTP/1.1\r\n\r\n")
                self.assertTrue(answer.startswith("HTTP/1.1 503"), answer)
                self.assertIn("Retry-After: 1", answer)
            wait_until(lambda: not server.raw(b"GET /v2 HTTP/1.0\r\n\r\n").startswith("HTTP/1.1 503"), "a free connection")

    def test_a_token_is_asked_for(self):
        with open("token", "w", encoding="utf-8") as file:
            file.write("secret\nnot this\n")
        with Server("--token-file", "token") as server:
            for authorization, status in ((None, 401), ("Bearer secre", 401), ("Bearer secret1", 401), ("secret", 401),
                                          ("Bearer ", 401), ("Bearer secret", 200)):
                headers = {"Authorization": authorization} if authorization else {}
                found, headers, _ = server.ask("/v2/models/demo", headers=headers)
                self.assertEqual(found, status, authorization)
                self.assertEqual(headers.get("WWW-Authenticate"), "Bearer" if status == 401 else None)
            self.assertEqual(server.ask("/v2/health/live")[0], 200)

    def test_what_cannot_be_served_is_an_error(self):
        for code, words, arguments in [
                (3, "none: expected a checkpoint or exported weights, found nothing", ["--model", "none"]),
                (2, 'found "a b"', ["--model", "a b=ck"]),
                (2, 'expected a name of its own, found "ck" twice', ["--model", "ck", "--model", "./ck"]),
                (2, "expected an address such as 127.0.0.1", ["--model", "ck", "--host", "nowhere"]),
                (2, "cannot listen", ["--model", "ck", "--host", "192.0.2.1"])]:
            result = subprocess.run([os.environ["HLITE_SERVE"], "--port", "0", *arguments], capture_output=True, text=True,
                                    timeout=LIMIT, check=False)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
