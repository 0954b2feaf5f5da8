#!/usr/bin/env python3
"""The server of hugectr_lite.serve over loopback: scores, refusals, many and slow clients. Run by ctest; PYTHONPATH names
the package."""
import contextlib
import http.client
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import hugectr_lite as hl
from hugectr_lite import serve
from small_model import config, features, samples, write_files

LIMIT = 600  # seconds that an answer may take on a busy machine
MANY = 200  # clients at once


def post(body, path="/score"):
    return b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.before = os.getcwd()
        os.chdir(cls.folder.name)
        write_files(".")
        clamped = config()
        clamped["layers"][0]["key_policy"] = "clamp"
        hl.Trainer(clamped).save("clamped")
        hl.Trainer(config()).save("checkpoint")

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        cls.folder.cleanup()

    def setUp(self):
        self.errors = io.StringIO()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(contextlib.redirect_stderr(self.errors))
        self.server = serve.Server(("127.0.0.1", 0), hl.Predictor("clamped", threads=1), "clamped")
        stack.callback(self.server.server_close)

    def start(self):
        thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)

    def connect(self):
        client = socket.create_connection(self.server.server_address, timeout=LIMIT)
        self.addCleanup(client.close)
        return client

    def answer(self, client, method="POST"):
        """(status, headers, JSON of the body if there is one)"""
        response = http.client.HTTPResponse(client, method=method)
        response.begin()
        body = response.read()
        return response.status, response.headers, json.loads(body) if body else None

    def ask(self, request, method="POST"):
        client = self.connect()
        client.sendall(request)
        return self.answer(client, method)

    def test_serves_scores(self):
        _, dense, keys = samples(5, 2)
        server = subprocess.Popen([sys.executable, "-m", "hugectr_lite.serve", "--model", "checkpoint", "--port", "0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().rpartition(":")[2])
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)  # one for all

            def ask(method, path, content=None):
                client.request(method, path, content)
                answer = client.getresponse()
                return answer.status, json.load(answer)

            code, answer = ask("POST", "/score", json.dumps({"dense": features(dense).tolist(), "keys": keys.tolist()}))
            self.assertEqual(code, 200)
            np.testing.assert_allclose(answer["scores"], hl.Predictor("checkpoint").predict(features(dense), keys),
                                       atol=1e-6)
            sample = '{"dense": [[%s, 2]], "keys": [[%s, 2, 3]]}'
            self.assertEqual(ask("POST", "/score", sample % (1, 2))[0], 200)
            refusals = {b"{": "Expecting", b"[]": "expected", b'{"dense": [[1, 2]]}': "keys", b"\xff": "utf-8",
                        b'{"dense": [[1, 2]], "keys": [[1, 2]]}': "found [1, 2]",
                        b'{"dense": [[1, 2]], "keys": [[1, true, 2]]}': "keys: expected numbers, found true or false",
                        b'{"dense": [[false, 2]], "keys": [[1, 2, 3]]}': "dense: expected numbers, found true",
                        b'{"dense": [[1, 2]], "keys": true}': "keys: expected numbers",
                        b'{"dense": [[1], [1, 2]], "keys": [[1, 2, 2], [1, 2, 2]]}': "dense: expected",
                        b"[" * 100000 + b"]" * 100000: "deeper brackets",
                        b'{"dense": ' + b"[" * 100000: "deeper brackets"}
            for number, words in (("1" * 401, "dense: expected"), ("1" * 5000, ""), ("NaN", "finite"), ('"1"', "numbers"),
                                  ("null", "numbers"), ("1e999", "finite"), ("[1]", "dense: expected")):
                refusals[(sample % (number, 1)).encode()] = words
            for number, words in (("1" * 401, "keys: expected"), (99, "slot 0"), (-1, "slot 0"), ("1.5", "integers"),
                                  (2**64 - 1, "integers"), (2**70, "integers"), ('"a"', "integers")):
                refusals[(sample % (1, number)).encode()] = words
            for content, words in refusals.items():
                with self.subTest(content=content[:60]):
                    code, answer = ask("POST", "/score", content)
                    self.assertEqual(code, 400)
                    self.assertIn(words, answer["error"])
                    self.assertLess(len(answer["error"]), 300)
            self.assertEqual(ask("GET", "/health"),
                             (200, {"status": "ok", "model": "checkpoint", "scored": 6, "unknown_keys": 0}))
            client.close()
        finally:
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=LIMIT)
        self.assertEqual((server.returncode, errors), (0, ""))
        failed = subprocess.run([sys.executable, "-m", "hugectr_lite.serve", "--model", "none"], capture_output=True,
                                text=True, check=False)
        self.assertEqual(failed.returncode, 2)
        self.assertIn("none: expected a checkpoint", failed.stderr)

    def test_heads_that_are_no_request_for_scores_are_refused(self):
        self.start()
        length = b"POST /score HTTP/1.1\r\nContent-Length: %s\r\n\r\n"
        cases = [(b"GET /score HTTP/1.1\r\n\r\n", 405, "expected POST, found GET"),
                 (post(b"{}", "/health"), 405, "expected GET, HEAD"), (post(b"{}", "/other"), 404, "POST /score"),
                 (b"PUT /score HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405, "expected POST"),
                 (b"BREW /pot HTTP/1.1\r\n\r\n", 501, "BREW"), (b"GET /pot HTTP/1.1\r\n\r\n", 404, "GET /health"),
                 (b"POST /score HTTP/1.1\r\n\r\n", 411, "Content-Length"),
                 (b"POST /score HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 411, "Content-Length"),
                 (length % b"-5", 400, "'-5'"), (length % b"1e3", 400, "1e3"), (length % "²".encode("latin-1"), 400, "²"),
                 (length % (b"9" * 50), 400, "999"), (length % b"999999999999", 413, "at most"),
                 (length % b"5\r\nContent-Length: 6", 400, "5, 6"), (length % b"", 400, "Content-Length"),
                 (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, ""), (b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n", 414, ""),
                 (b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, ""),
                 (b"GET /health HTTP/9.9\r\n\r\n", 505, "")]
        for request, code, words in cases:
            with self.subTest(request=request[:60]):
                status, headers, content = self.ask(request)
                self.assertEqual((status, headers["Connection"]), (code, "close"))
                self.assertIn(words, content["error"])
        self.assertEqual(self.ask(length % b"99999999" + b"[" * 10**7)[0], 413)  # which the client sends to the end
        client = self.connect()  # HEAD has no body, and the connection goes on
        for method in ("HEAD", "GET", "HEAD"):
            client.sendall(method.encode() + b" /health?a HTTP/1.1\r\n\r\n")
            status, headers, content = self.answer(client, method)
            self.assertEqual(status, 200)
            self.assertEqual(content is None, method == "HEAD")
            self.assertGreater(int(headers["Content-Length"]), 10)
        client.sendall(b"POST /score HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 100"))
        client.sendall(b"{}")
        self.assertEqual(self.answer(client)[0], 400)
        self.assertEqual(self.errors.getvalue(), "")

    def test_an_answer_is_one_write_without_delay(self):
        seen, setup, write = [], serve.Handler.setup, socket.SocketIO.write

        def observed_setup(handler):
            setup(handler)
            seen.append(handler.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        def observed_write(stream, data):
            seen.append(bytes(data))
            return write(stream, data)

        self.start()
        with mock.patch.object(serve.Handler, "setup", observed_setup), \
                mock.patch.object(socket.SocketIO, "write", observed_write):
            self.ask(b"GET /health HTTP/1.1\r\n\r\n", "GET")
            self.assertEqual(len(seen), 2)
        self.assertNotEqual(seen[0], 0)
        self.assertIn(b'\r\n\r\n{"status"', seen[1])

    def test_many_connect_at_once(self):
        clients = [self.connect() for _ in range(MANY)]  # before any is accepted
        for client in clients:
            client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        self.start()
        for client in clients:
            self.assertEqual(self.answer(client, "GET")[0], 200)
        self.assertEqual(self.errors.getvalue(), "")

    def test_clients_that_stop_or_go_away_leave_no_trace(self):
        self.start()
        begun = (b"", b"POST /sc", b"POST /score HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        with mock.patch.object(serve.Handler, "timeout", 0.1):
            for part in begun:
                client = self.connect()
                with contextlib.suppress(ConnectionError):  # on a busy machine its time may be over before
                    client.sendall(part)
                    self.assertEqual(client.recv(1), b"")
        for part in (*begun, post(b"{}"), post(b"[" * 10000)):
            client = self.connect()
            client.sendall(part)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
            client.close()
        self.assertEqual(self.ask(b"GET /health HTTP/1.1\r\n\r\n", "GET")[0], 200)
        self.assertEqual(self.errors.getvalue(), "")

    def test_a_fault_of_the_server_is_one_line(self):
        self.start()
        with mock.patch.object(self.server, "score", side_effect=KeyError("oops")):
            client = self.connect()
            client.sendall(post(b"{}"))
            self.assertEqual(client.recv(1), b"")
        self.assertEqual(self.errors.getvalue(), "serve: request of 127.0.0.1: KeyError: 'oops'\n")
        with mock.patch.object(self.server, "score", side_effect=hl.DeviceError("lost")):
            self.assertEqual(self.ask(post(b"{}"))[::2], (500, {"error": "lost"}))
        with mock.patch.object(self.server, "score", return_value={"scores": [float("nan")]}):
            status, _, content = self.ask(post(b"{}"))
            self.assertEqual(status, 500)
            self.assertIn("NaN", content["error"])

    def test_an_answer_counts_unknown_keys(self):
        self.start()
        for keys, unknown in (([[1, 2, 3], [4, 1, 5]], 0), ([[99, 2, 3], [4, 1, 2**40]], 2)):
            status, _, content = self.ask(post(json.dumps({"dense": [[1, 2]] * 2, "keys": keys}).encode()))
            self.assertEqual((status, content["unknown_keys"], len(content["scores"])), (200, unknown, 2))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.ask(post(json.dumps({"dense": [[1, 2]] * 20, "keys": [[1, 99, 3]] * 20}).encode()))
        self.assertEqual(len(seen), 1)
        self.assertIn("key of slot 1: all 20 are outside", str(seen[0].message))
        self.assertEqual(self.ask(b"GET /health HTTP/1.1\r\n\r\n", "GET")[2]["unknown_keys"], 22)


if __name__ == "__main__":
    # A shell without job control starts background commands with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main()
