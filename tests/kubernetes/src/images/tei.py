#!/usr/bin/env python3
"""A stand-in for Text Embeddings Inference: the same addresses and arguments; a vector is a bag of words, so that texts
which share words are similar. `/inputs` tells every text that it was given."""

import argparse
import json
import re
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WIDTH = 128
given = []
arguments = argparse.ArgumentParser()
arguments.add_argument("--model-id", default="fake/model")
arguments.add_argument("--port", type=int, default=8080)
options, _ = arguments.parse_known_args()


def vector(text):
    slots = [0.01] * WIDTH
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        slots[zlib.crc32(word.encode()) % WIDTH] += 1.0
    return slots


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        info = {"model_id": options.model_id, "model_sha": None, "max_concurrent_requests": 512,
                "max_client_batch_size": 32, "auto_truncate": True}
        answers = {"/health": info, "/info": info, "/inputs": given}
        if self.path in answers:
            self.answer(200, answers[self.path])
        else:
            self.answer(404, {"error": "no such path"})

    def do_POST(self):
        inputs = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
        texts = [inputs] if isinstance(inputs, str) else inputs
        # Texts of tools and queries; the canary is neither.
        given.extend(text for text in texts if not text.startswith("canary: "))
        self.answer(200, [vector(text) for text in texts])


ThreadingHTTPServer(("0.0.0.0", options.port), Handler).serve_forever()
