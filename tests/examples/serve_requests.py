#!/usr/bin/env python3
"""Sends examples/serve requests that are cut, flipped, huge, deep, pipelined, slow or else wrong, and sound ones between.

    serve_requests.py URL COUNT [--seed S] [--threads T] [--line LINE]

Each request that is whole must get an answer in time, whose status is one that the server has; where the body is of JSON,
it must be JSON. LINE is a row that the model accepts: its answer must be the same at the end as at the start. Prints how often
each status came; the exit status is 0 if all was well.
"""
import argparse
import collections
import json
import random
import socket
import struct
import sys
import threading
import time

STATUSES = {100, 200, 400, 404, 405, 408, 409, 411, 413, 414, 417, 431, 500, 501, 503, 505}
PATIENCE = 60


class Wrong(Exception):
    pass


def request(body, method="POST", path="/predict", headers=(), version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", "Host: x", *headers]
    if body is not None and not any(h.lower().startswith(("content-length", "transfer-encoding")) for h in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def chunked(body, rng):
    out = b""
    while body:
        size = rng.randint(1, max(1, len(body)))
        out += b"%x\r\n" % size + body[:size] + b"\r\n"
        body = body[size:]
    return out + b"0\r\n\r\n"


def random_value(rng, depth=0):
    """Any JSON, most of it no request."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, 1, -1, 2**31, 2**32, 2**63 - 1, -2**63, rng.randrange(100)])
    if kind == 2:
        return rng.choice([0.0, -0.0, 1e308, -1e39, 1e-320, rng.random()])
    if kind in (3, 4, 5):
        return rng.choice(["", "a", "\n\n", "__label__x", "1:1", "1:x", "0:1 0:2", "\u00e4" * 9, "1:1e39", "#", "w " * 999])
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    names = ["row", "rows", "top", "id", "", "x", "\u00e9"]
    return {rng.choice(names): random_value(rng, depth + 1) for _ in range(rng.randrange(4))}


class Generator:
    """One kind of wrong request a method: returns the bytes, and the number of answers that must come (None: any)."""

    def __init__(self, rng, line):
        self.rng, self.line = rng, line

    def sound_body(self):
        rng = self.rng
        row = rng.choice([self.line, [[0, 1]], [[rng.randrange(3), rng.random()]], "", []])
        body = {"row": row} if rng.random() < 0.6 else {"rows": [row] * rng.randint(1, 9)}
        if rng.random() < 0.3:
            body["top"] = 1
        if rng.random() < 0.3:
            body["id"] = rng.choice(["a", 7])
        return json.dumps(body).encode()

    def sound(self):
        rng = self.rng
        if rng.random() < 0.3:
            return request(None, rng.choice(["GET", "GET", "DELETE"]), rng.choice(["/health", "/model", "/", "/predict"])), 1
        if rng.random() < 0.3:
            return request(chunked(self.sound_body(), rng), headers=["Transfer-Encoding: chunked"]), 1
        return request(self.sound_body()), 1

    def cut(self):
        whole, _ = self.sound()
        return whole[: self.rng.randrange(len(whole))], None

    def flipped(self):
        whole = bytearray(self.sound()[0])
        for _ in range(self.rng.choice([1, 1, 2, 9])):
            whole[self.rng.randrange(len(whole))] = self.rng.randrange(256)
        return bytes(whole), None

    def flipped_body(self):
        body = bytearray(self.sound_body())
        for _ in range(self.rng.choice([1, 1, 2, 9])):
            body[self.rng.randrange(len(body))] = self.rng.randrange(256)
        return request(bytes(body)), 1

    def noise(self):
        return self.rng.randbytes(self.rng.choice([1, 10, 100, 5000])), None

    def noise_body(self):
        return request(self.rng.randbytes(self.rng.choice([0, 1, 10, 1000]))), 1

    def other_json(self):
        return request(json.dumps(random_value(self.rng)).encode()), 1

    def wrong_rows(self):
        row = self.rng.choice([[[1, 1], [1, 2]], [[2**40, 1]], [[-1, 1]], [[0, 1e300]], [1, 2], [[0.5, 1]], [[0]], [0, "x"],
                               "1:1 1:1", {"a": 1}, None, [[0, 1], 3]])
        return request(json.dumps({"rows": [self.line, row] if self.rng.random() < 0.5 else [row]}).encode()), 1

    def numbers(self):
        text = self.rng.choice(["1e999", "NaN", "-Infinity", "99999999999999999999", "0x1", "01", "1.", "-", "1e-999",
                                "\"\\u0000\"", "\"\\ud800\"", "\"\xff\"", "9" * 5000])
        return request(('{"row": [[0, %s]], "id": %s}' % (text, text)).encode("latin-1")), 1

    def deep(self):
        depth = self.rng.choice([100, 2047, 2048, 2049, 100000])
        opened = self.rng.choice(["[", '{"row":', '{"a":[']) * depth
        return request(self.rng.choice(["", '{"row":']).encode() + opened.encode()), 1

    def many(self):
        count = self.rng.choice([10, 255, 256, 257, 5000])
        return request(json.dumps({"rows": [self.rng.choice(["", self.line[:40]])] * count}).encode()), 1

    def huge(self):
        kind = self.rng.randrange(5)
        if kind == 0:  # a body beyond the limit, and announced
            return request(b" " * self.rng.choice([1 << 20, (1 << 20) + 1, 3 << 20])), 1
        if kind == 1:
            return request(chunked(b"[" * (2 << 20), random.Random(1)), headers=["Transfer-Encoding: chunked"]), 1
        if kind == 2:
            return request(b"", headers=["X: " + "y" * self.rng.choice([8000, 40000, 200000])]), None
        if kind == 3:
            return request(b"", path="/" + "a" * self.rng.choice([8000, 40000, 200000])), None
        return request(b"", headers=[f"X{i}: {i}" for i in range(self.rng.choice([100, 5000]))]), None

    def lengths(self):
        length = self.rng.choice(["-1", "x", "99999999999999999999999", "18446744073709551615", "", "0x10", "5, 5",
                                  "1\r\nContent-Length: 2"])
        return request(self.sound_body(), headers=["Content-Length: " + length]), None

    def chunks(self):
        body = self.rng.choice([b"zz\r\n", b"ffffffffffffffff\r\na", b"-1\r\n", b"5\r\nab",
                                b"1;" + b"x" * 9999 + b"\r\na\r\n0\r\n\r\n", b"0\r\n" + b"A: b\r\n" * 999 + b"\r\n"])
        return request(body, headers=["Transfer-Encoding: chunked"]), None

    def pipelined(self):
        kinds = [self.sound, self.other_json, self.numbers, self.noise_body]
        parts = [self.rng.choice(kinds)() for _ in range(self.rng.randint(2, 20))]
        return b"".join(p for p, _ in parts), len(parts)

    def heads(self):
        return self.rng.choice([
            request(self.sound_body(), version="HTTP/1.0"), request(self.sound_body(), version="HTTP/9.9"),
            b"GET /health\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n" * 99, b"GET  /health  HTTP/1.1\r\n\r\n",
            b"GET /%00%ff%zz HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /health HTTP/1.1\r\n\r\n", request(b"", headers=["No colon"]), request(b"", headers=[": empty"]),
            request(b"", headers=["Host: y", "Connection: " + "close, " * 99]),
            request(b"", headers=["Expect: 200-maybe"]),
            request(None, headers=["Content-Length: 9999999", "Expect: 100-continue"]),
            request(self.sound_body(), headers=["Content-Length: 5", "Transfer-Encoding: chunked"]),
            request(self.sound_body(), "\u00e4"), request(b"", path="*"), request(b"", "OPTIONS", "*"),
            request(b"", "CONNECT", "x:1")]), None


KINDS = ["sound", "cut", "flipped", "flipped_body", "noise", "noise_body", "other_json", "wrong_rows", "numbers", "deep",
         "many", "huge", "lengths", "chunks", "pipelined", "heads"]
RARE = {"huge": 0.1, "deep": 0.3, "many": 0.2}


class Client:
    """Sends requests, most of them on a connection of their own."""

    def __init__(self, address, rng, line, statuses):
        self.address, self.rng, self.statuses = address, rng, statuses
        self.generator = Generator(rng, line)
        self.socket = None

    def connect(self):
        self.socket = socket.create_connection(self.address, PATIENCE)
        self.pending = b""

    def close(self):
        if self.socket and self.rng.random() < 0.5:  # without farewell
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if self.socket:
            self.socket.close()
        self.socket = None

    def read_answer(self):
        """One answer: status and whether the connection stays. None where the connection has ended before it."""
        while b"\r\n\r\n" not in self.pending:
            part = self.socket.recv(65536)
            if not part:
                if self.pending:
                    raise Wrong(f"half an answer: {self.pending[:200]!r}")
                return None
            self.pending += part
        head, rest = self.pending.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        fields = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", 0))
        while len(rest) < length:
            part = self.socket.recv(65536)
            if not part:
                raise Wrong(f"an answer's body ends early: {head!r}")
            rest += part
        body, self.pending = rest[:length], rest[length:]
        if status not in STATUSES:
            raise Wrong(f"status {status}: {body[:200]!r}")
        if fields.get("content-type") == "application/json" and body:
            said = json.loads(body)
            if (status == 200) == ("error" in said and "status" not in said):
                raise Wrong(f"status {status} with {body[:200]!r}")
        with self.statuses["lock"]:
            self.statuses["count"][status] += 1
        if status == 100:
            return self.read_answer()
        return status, fields.get("connection", "").lower() != "close"

    def send(self, data, slowly):
        try:
            if not slowly:
                self.socket.sendall(data)
                return
            while data:
                size = self.rng.randint(1, max(1, len(data) // 3))
                self.socket.sendall(data[:size])
                data = data[size:]
                time.sleep(self.rng.random() / 200)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the server has refused it

    def step(self):
        kind = self.rng.choices(KINDS, [RARE.get(kind, 1) for kind in KINDS])[0]
        data, answers = getattr(self.generator, kind)()
        if self.socket is None:
            self.connect()
        try:
            self.send(data, self.rng.random() < 0.05)
            if answers is None:
                if self.rng.random() < 0.3:
                    self.socket.settimeout(0.02)
                    self.read_answer()
                self.close()
                return
            for _ in range(answers):
                if (got := self.read_answer()) is None:
                    raise Wrong(f"no answer to {kind}: {data[:300]!r}")
                if not got[1]:
                    break
            if not got[1] or self.rng.random() < 0.2:
                self.close()
        except (TimeoutError, ConnectionResetError):
            self.close()
            if answers is not None and kind != "huge":
                raise Wrong(f"no answer to {kind}: {data[:300]!r}") from None


def ask(address, line):
    client = Client(address, random.Random(1), line, {"lock": threading.Lock(), "count": collections.Counter()})
    client.connect()
    client.send(request(json.dumps({"row": line}).encode(), headers=["Connection: close"]), False)
    text = b""
    while part := client.socket.recv(65536):
        text += part
    client.socket.close()
    if not text.startswith(b"HTTP/1.1 200 "):
        raise Wrong(f"the row is refused: {text!r}")
    return text.split(b"\r\n\r\n", 1)[1]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("url")
    arguments.add_argument("count", type=int)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--line", default="a b")
    given = arguments.parse_args()
    host, port = given.url.removeprefix("http://").rstrip("/").rsplit(":", 1)
    address = (host, int(port))
    statuses = {"lock": threading.Lock(), "count": collections.Counter()}
    wrong = []

    def work(number):
        client = Client(address, random.Random(given.seed * 1000 + number), given.line, statuses)
        try:
            for i in range(number, given.count, given.threads):
                client.step()
                if wrong:
                    break
        except (Wrong, OSError, ValueError) as failure:
            wrong.append(f"request {i}: {type(failure).__name__}: {failure}")
        client.close()

    before = ask(address, given.line)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(given.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not wrong and ask(address, given.line) != before:
        wrong.append("another answer at the end than at the start")
    print(f"{given.count} requests; answers by status:",
          ", ".join(f"{status}: {count}" for status, count in sorted(statuses["count"].items())))
    for text in wrong:
        print("FAILED:", text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
