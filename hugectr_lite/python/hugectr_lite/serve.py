"""Scores over HTTP, from a model in memory.

    python3 -m hugectr_lite.serve --model checkpoint [--config c.json] [--host 127.0.0.1] [--port 8080]

    POST /score   {"dense": [[...], ...], "keys": [[...], ...]}  ->  {"scores": [...]}
    GET /health   {"status": "ok", "model": ..., "scored": N}

Arrays are those of Predictor.predict(). A request that cannot be scored is answered with 400 and
{"error": what was expected and what was found}. Requests are scored one at a time, each on all threads. Only this
machine is listened to unless --host says otherwise; there is no authentication.
"""
import argparse
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from . import Error, Predictor

MOST_BYTES = 64 << 20  # of a request


class Server(ThreadingHTTPServer):
    """Port 0 takes a free one: server_address says which."""

    daemon_threads = True

    def __init__(self, address, predictor, model):
        super().__init__(address, Handler)
        self.predictor, self.model, self.scored = predictor, model, 0
        self.lock = threading.Lock()

    def score(self, request):
        if not isinstance(request, dict) or set(request) != {"dense", "keys"}:
            raise ValueError('expected {"dense": [[...], ...], "keys": [[...], ...]}')
        keys = np.array(request["keys"])
        if keys.dtype.kind not in "iu":
            raise ValueError("keys: expected lists of integers, all of one length")
        with self.lock:
            scores = self.predictor.predict(np.array(request["dense"], np.float32), keys)
            self.scored += len(scores)
        return scores


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code, content):
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/health":
            return self.answer(404, {"error": "expected GET /health or POST /score"})
        self.answer(200, {"status": "ok", "model": self.server.model, "scored": self.server.scored})

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True  # what follows is not read
            return self.answer(413, {"error": f"expected a Content-Length of at most {MOST_BYTES}, found {length!r}"})
        body = self.rfile.read(int(length))
        if self.path != "/score":
            return self.answer(404, {"error": "expected GET /health or POST /score"})
        try:
            self.answer(200, {"scores": [float(score) for score in self.server.score(json.loads(body))]})
        except (ValueError, TypeError, Error) as error:
            self.answer(400, {"error": str(error)})

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
