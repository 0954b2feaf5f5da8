"""Scores over HTTP, from a model in memory.

    python3 -m hugectr_lite.serve --model checkpoint [--config c.json] [--host 127.0.0.1] [--port 8080]

    POST /score   {"dense": [[...], ...], "keys": [[...], ...]}  ->  {"scores": [...], "unknown_keys": N}
    GET /health   {"status": "ok", "model": ..., "scored": N, "unknown_keys": N}

Arrays are those of Predictor.predict(). unknown_keys counts keys outside of their tables, which the config's key_policy
replaced. A request that cannot be scored is answered with 400 and {"error": what was expected and what was found}.
Requests are scored one at a time, each on all threads. A connection that sends nothing for a minute is closed. The
server listens to this machine only unless --host says otherwise; there is no authentication.
"""
import argparse
import contextlib
import json
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import DeviceError, Error, Predictor, arrays

MOST_BYTES = 64 << 20  # of a request
METHODS = {"/health": "GET, HEAD", "/score": "POST"}


def _has_boolean(value):
    if not isinstance(value, list):
        return isinstance(value, bool)
    return bool in map(type, value) or any(_has_boolean(inner) for inner in value if type(inner) is list)


class Server(ThreadingHTTPServer):
    """Port 0 takes a free one: server_address says which."""

    daemon_threads = True
    request_queue_size = 1024  # connections that wait to be accepted

    def __init__(self, address, predictor, model):
        super().__init__(address, Handler)
        self.predictor, self.model, self.scored = predictor, model, 0
        self.lock = threading.Lock()

    def unknown_keys(self):
        return int(self.predictor.unknown_keys.sum())

    def score(self, request):
        if not isinstance(request, dict) or set(request) != {"dense", "keys"}:
            raise ValueError('expected {"dense": [[...], ...], "keys": [[...], ...]}')
        for name, value in request.items():
            if _has_boolean(value):  # NumPy would take it for 0 or 1
                raise ValueError(f"{name}: expected numbers, found true or false")
        with self.lock:
            before = self.unknown_keys()
            scores = self.predictor.predict(arrays.floats(request["dense"], "dense"), request["keys"])
            self.scored += len(scores)
            return {"scores": scores.tolist(), "unknown_keys": self.unknown_keys() - before}

    def shutdown_request(self, request):
        """Reads for a while what a refused client still sends: closing at once could cost it the answer."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_WR)
            request.settimeout(1)
            for _ in range(MOST_BYTES >> 16):
                if not request.recv(1 << 16):
                    break
        self.close_request(request)

    def handle_error(self, request, client_address):
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # the client has gone
            print(f"serve: request of {client_address[0]}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # of a first line that cannot be read: its answer has a head
    timeout = 60  # seconds without a byte
    wbufsize = -1  # head and body leave together: two packets would wait for the client's delayed acknowledgement
    disable_nagle_algorithm = True

    def answer(self, code, content, **headers):
        try:
            body = json.dumps(content, allow_nan=False).encode()
        except ValueError:
            code, body = 500, b'{"error": "the model gives scores that are NaN or infinite"}'
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code, message=None, explain=None):
        """Requests that cannot be read, among them those of unknown methods. What follows one is not read either."""
        self.close_connection = True
        self.answer(code, {"error": message or self.responses[code][0]})

    def refuse(self):
        self.close_connection = True  # the body, if there is one, is not read
        allowed = METHODS.get(self.path.partition("?")[0])
        if allowed:
            self.answer(405, {"error": f"expected {allowed}, found {self.command}"}, Allow=allowed)
        else:
            self.answer(404, {"error": "expected GET /health or POST /score"})

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = refuse

    def do_GET(self):
        if self.path.partition("?")[0] != "/health":
            return self.refuse()
        server = self.server
        self.answer(200, {"status": "ok", "model": server.model, "scored": server.scored,
                          "unknown_keys": server.unknown_keys()})

    do_HEAD = do_GET

    def handle_expect_100(self):
        if self.length() is None:
            return False
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def length(self):
        """Bytes of the body; None after an answer that refuses it."""
        found = self.headers.get_all("Content-Length", [])
        if self.headers.get("Transfer-Encoding") is not None or not found:
            return self.send_error(411, "expected a Content-Length, and no Transfer-Encoding")
        if len(found) > 1 or not re.fullmatch("[0-9]{1,18}", found[0]):
            return self.send_error(400, f"Content-Length: expected a number of bytes, found {', '.join(found)[:40]!r}")
        if int(found[0]) > MOST_BYTES:
            return self.send_error(413, f"Content-Length: expected at most {MOST_BYTES}, found {found[0]}")
        return int(found[0])

    def do_POST(self):
        if self.path.partition("?")[0] != "/score":
            return self.refuse()
        length = self.length()
        if length is None:
            return
        body = self.rfile.read(length)
        if len(body) < length:  # the client has gone
            self.close_connection = True
            return
        try:
            code, content = 200, self.server.score(json.loads(body))
        except DeviceError as error:
            code, content = 500, {"error": str(error)}
        except RecursionError:
            code, content = 400, {"error": 'expected {"dense": [[...], ...], "keys": [[...], ...]}, found deeper brackets'}
        except (ValueError, TypeError, OverflowError, Error) as error:
            code, content = 400, {"error": str(error)}
        self.answer(code, content)

    def log_message(self, *arguments):
        pass


def _port(text):
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port in [0, 65535], found {text!r}")
    return int(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m hugectr_lite.serve", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR|FILE.safetensors")
    parser.add_argument("--config", metavar="FILE")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=_port, default=8080, help="0: a free one [8080]")
    parser.add_argument("--threads", type=int, default=0, help="0: all [0]")
    options = parser.parse_args(arguments)
    try:
        predictor = Predictor(options.model, options.config, threads=options.threads)
        server = Server((options.host, options.port), predictor, options.model)
    except (Error, OSError) as error:
        print(f"serve: {error}", file=sys.stderr)
        return 2
    print(f"serving {options.model} on http://{options.host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
