#!/usr/bin/env python3
"""What attackers send, by raw sockets: the server goes on, in bounded memory, and its honest clients lose no answer."""
import socket
import threading
import time
import unittest

from running_server import FOREVER, LIMIT, ModelFolder, Server, ask_on, evaluation, in_threads, json_request, json_scores, peak_memory

INFER = "/v2/models/demo/infer"
LOAD = "/v2/repository/models/demo/load"
MODELS = ModelFolder()
setUpModule, tearDownModule = MODELS.set_up, MODELS.tear_down


def head(path, *fields, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *fields, "Connection: close", "", ""]).encode()


def status_of(answer):
    return int(answer.split(" ", 2)[1]) if answer else None


def send(server, data):
    """What is answered to bytes that the server need not take all, until it closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT) as connection:
        sender = threading.Thread(target=send_all, args=(connection, data))
        sender.start()
        answer = b""
        try:
            while piece := connection.recv(1 << 16):
                answer += piece
        except ConnectionResetError:
            pass
        try:
            connection.shutdown(socket.SHUT_RDWR)  # ends the sender
        except OSError:
            pass
        sender.join()
        return answer.decode(errors="replace")


def send_all(connection, data):
    try:
        connection.sendall(data)
    except OSError:  # the server has closed
        pass


class AttackTest(unittest.TestCase):
    def setUp(self):
        self.dense, self.keys, self.scores = evaluation()

    def assert_lives(self, server):
        self.assertEqual(json_scores(server.score(json_request(self.dense, self.keys))[2]).tobytes(), self.scores.tobytes())

    def test_headers_and_trailers_have_one_limit(self):
        with Server() as server:
            for fields in (["X: " + "a" * 65534], [f"X{i}: a" for i in range(100_000)], ["X: " + "a" * 20_000]):
                trailer = head(INFER, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
                for attack in (trailer + "\r\n".join([*fields, "", ""]).encode(), head(INFER, *fields)):
                    self.assertEqual(status_of(send(server, attack)), 431)
            extension = head(INFER, "Transfer-Encoding: chunked") + b"2;" + b"a" * 20_000 + b"\r\n{}\r\n0\r\n\r\n"
            self.assertEqual(status_of(send(server, extension)), 431)
            self.assert_lives(server)

    def test_a_body_that_proxies_may_read_otherwise_is_refused(self):
        with Server() as server:
            for fields in (["Transfer-Encoding: gzip, chunked"], ["Transfer-Encoding: identity"],
                           ["Transfer-Encoding: chunked, chunked"], ["Transfer-Encoding: chunked", "Transfer-Encoding: gzip"],
                           ["Transfer-Encoding: chunked", "Content-Length: 2"], ["Content-Length: 2", "Content-Length: 3"],
                           ["Content-Length: 2, 2"], ["Content-Length: +2"], ["Content-Length: 2", "X: a", " b"]):
                smuggled = send(server, head(INFER, *fields) + b"{}" + head("/v2", method="GET"))
                self.assertEqual(status_of(smuggled), 400, fields)
                self.assertEqual(smuggled.count("\r\n\r\n"), 1, fields)

    def test_who_may_not_ask_sends_no_body(self):
        with open("token", "w", encoding="utf-8") as file:
            file.write("secret\n")
        with Server("--token-file", "token") as server:
            for path in (INFER, LOAD, "/v2/nothing"):
                self.assertEqual(status_of(send(server, head(path, "Content-Length: 60000000"))), 401)

    def test_bodies_in_flight_have_one_limit(self):
        with Server("--max-bodies-mb", "8", "--max-body-mb", "8") as server:
            held = []
            for _ in range(2):
                held.append(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT))
                held[-1].sendall(head(INFER, f"Content-Length: {3 << 20}") + b" " * ((3 << 20) - 1))
            server.wait_for_metric("body_bytes", 2 * ((3 << 20) - 1))
            answer = send(server, head(INFER, f"Content-Length: {3 << 20}") + b" " * (3 << 20))
            self.assertEqual(status_of(answer), 503)
            self.assertIn("Retry-After", answer)
            for connection in held:
                connection.close()
            self.assert_lives(server)

    def test_what_is_sent_ahead_is_not_kept(self):
        with Server(*FOREVER) as server:
            base = peak_memory(server)
            body = json_request(self.dense[:1], self.keys[:1])
            waits = f"POST {INFER} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            connections = []
            for i in range(6):  # each waits for a batch of 8 while its socket is full
                connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT))
                connections[-1].setblocking(False)
                try:
                    connections[-1].sendall(waits + b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 10_000_000)
                except BlockingIOError:
                    pass
            server.wait_for_metric("queued_samples", 6)
            peak = peak_memory(server)
            self.assertTrue(peak is None or peak < base + 16, (base, peak))
            for connection in connections:
                connection.close()

    def test_a_request_has_no_more_values_than_the_model_takes(self):
        with Server() as server:
            for body in (b"[" * 60_000, b'{"inputs":[' + b"0," * 20_000_000 + b"0]}",
                         b'{"inputs":' + b"[" * 1000 + b"]" * 1000 + b"}"):
                answer = send(server, head(INFER, f"Content-Length: {len(body)}") + body)
                self.assertIn(status_of(answer), (400, 413))
            answer = send(server, head(LOAD, f"Content-Length: {32 << 20}"))
            self.assertEqual(status_of(answer), 413)
            self.assert_lives(server)

    def test_pages_of_others_change_nothing(self):
        with Server() as server:
            own = f"127.0.0.1:{server.port}"
            for status, fields in ((403, ["Origin: http://evil.example"]), (403, ["Origin: null"]),
                                   (415, ["Content-Type: text/plain"])):
                self.assertEqual(status_of(send(server, head(LOAD, *fields, "Content-Length: 2") + b"{}")), status)
            rebound = f"POST {LOAD} HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nContent-Length: 2\r\n\r\n{{}}"
            self.assertEqual(status_of(send(server, rebound.encode())), 403)
            for headers in ({}, {"Content-Type": "application/json"}, {"Origin": "http://" + own}):
                self.assertEqual(server.ask(LOAD, b"{}", headers)[0], 200)


class DrainTest(unittest.TestCase):
    def test_every_request_that_was_sent_is_answered(self):
        dense, keys, _ = evaluation()
        body = json_request(dense[:1], keys[:1])
        request = head(INFER, "Content-Type: application/json", f"Content-Length: {len(body)}") + body
        for keeps in (True, False):
            with Server("--drain-delay-ms", "200") as server:
                answered, lost = [0] * 40, []

                def client(i):
                    while True:
                        try:
                            connection = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT)
                        except OSError:  # the server listens no more
                            return
                        with connection:
                            ended = False
                            while not ended:
                                try:
                                    connection.sendall(request)
                                    answer = connection.recv(1 << 16)
                                except OSError as error:
                                    answer = str(error).encode()
                                if not answer.startswith(b"HTTP/1.1 200"):
                                    lost.append(answer)
                                    return
                                answered[i] += 1
                                ended = not keeps or b"Connection: close" in answer
                threads = [threading.Thread(target=client, args=(i,)) for i in range(40)]
                for thread in threads:
                    thread.start()
                while sum(answered) < 400:
                    time.sleep(0.005)
                self.assertEqual(server.stop()[0], 0)
                for thread in threads:
                    thread.join()
                self.assertEqual(lost, [])

    def test_it_is_not_ready_while_it_still_answers(self):
        with Server("--drain-delay-ms", "3600000") as server:
            server.process.terminate()
            while server.ask("/v2/health/ready")[0] != 503:
                time.sleep(0.005)
            dense, keys, _ = evaluation()
            status, headers, _ = server.score(json_request(dense[:1], keys[:1]))
            self.assertEqual((status, headers["Connection"]), (200, "close"))


class AllAtOnceTest(unittest.TestCase):
    def test_honest_clients_are_served_meanwhile(self):
        dense, keys, scores = evaluation()
        body = json_request(dense[:1], keys[:1])
        attacks = [head(INFER, "Transfer-Encoding: chunked") + b"0\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
                   head(INFER, "Transfer-Encoding: chunked") + b"0\r\n" + b"X: a\r\n" * 1_000_000 + b"\r\n",
                   head(LOAD, f"Content-Length: {32 << 20}") + b"[" * (32 << 20),
                   head(INFER, f"Content-Length: {60 << 20}") + b'{"inputs":[' + b"0," * (30 << 20),
                   head(INFER, f"Content-Length: {63 << 20}") + b" " * (63 << 20)]
        with Server() as server:
            done, waits = threading.Event(), []

            def honest():
                with server.connection() as connection:
                    while not done.is_set():
                        begin = time.monotonic()
                        status, _, answer = ask_on(connection, INFER, body)
                        waits.append(time.monotonic() - begin)
                        self.assertEqual((status, json_scores(answer)[0]), (200, scores[0]))
            client = threading.Thread(target=lambda: in_threads(2, lambda _: honest()))
            client.start()
            in_threads(25, lambda i: [send(server, attack) for attack in attacks[i % 5:] + attacks[:i % 5]])
            done.set()
            client.join()
            waits.sort()
            print(f"{len(waits)} honest answers, p99 {1000 * waits[len(waits) * 99 // 100]:.1f} ms, peak {peak_memory(server)} MB")
            memory = peak_memory(server)
            self.assertTrue(memory is None or memory < 200, memory)
            self.assertEqual(json_scores(server.score(json_request(dense, keys))[2]).tobytes(), scores.tobytes())
            self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
