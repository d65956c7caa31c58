"""heed serve over the loopback address: what it answers, whom it refuses, and that nothing which is sent stops it."""
import http.client
import json
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

import tiny_models
from program import HEED, SANITIZED, SHARED, TINY, ProgramTest, corpus

SLOWER = 10 if SANITIZED else 1
TEXT = ["--preset", "tiny", "--d-model", "16", "--feed-forward", "32", "--vocab-type", "characters", "--block", "16",
        "--batch", "2", "--max-updates", "2", "--save-minutes", "0", "--threads", "1", "--quiet"]
# What would run, or leave its place, where a text were taken for more than a text.
HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\" onmouseover=\"alert(1)", "@TITLE@",
           "\u202egnp.exe", "\x1b]0;title\x07", "a\x00b", "\U0001f600 \u0301\u0301", "<!--data-->", "]]>", "{{7*7}}"]


def setUpModule():
    global ROOT
    ROOT = pathlib.Path(tempfile.mkdtemp(prefix="heed-serve-"))
    unittest.addModuleCleanup(shutil.rmtree, ROOT)
    (ROOT / "pairs.tsv").write_text(corpus(60))
    for name, arguments in (("m", ["--pairs", "pairs.tsv", *TINY, "--max-updates", "2", "--quiet"]),
                            ("w", ["--text", "pairs.tsv", *TEXT])):
        subprocess.run([HEED, "train", *arguments, "--model", name], check=True, cwd=ROOT, timeout=240)
    tiny_models.text_encoder(ROOT / "bert", "BertForMaskedLM")
    tiny_models.image_encoder(ROOT / "vit")
    done = subprocess.run([HEED, "serve", "--model", "m", "--host", "192.0.2.1"], cwd=ROOT, stderr=subprocess.PIPE,
                          timeout=60)
    if b"libheed_http.so.1 cannot be loaded" in done.stderr:
        raise unittest.SkipTest("SKIPPED: heed was built without cpp-httplib")


class Server:
    """heed serve, until the end of a with."""

    def __init__(self, model, *arguments):
        self.process = subprocess.Popen([HEED, "serve", "--model", ROOT / model, *arguments], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        ready, _, _ = select.select([self.process.stdout], [], [], 60)
        self.address = self.process.stdout.readline().decode().rstrip("\n") if ready else ""
        if not self.address:
            self.process.kill()
            raise AssertionError(self.process.communicate()[1].decode())
        self.port = urllib.parse.urlsplit(self.address).port
        self.base = urllib.parse.urlsplit(self.address).path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self.process.stdout.close()
        self.process.stderr.close()

    def end(self, how):
        """Exit status and what stands on standard error."""
        self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        return status, self.process.stderr.read().decode()

    def open(self, timeout=120):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def raw(self, text, timeout=120):
        """All that comes back for these bytes."""
        with self.open(timeout) as connection:
            connection.sendall(text)
            return read_all(connection)

    def ask(self, path, body=None, method=None, headers=(), timeout=120):
        """Status, headers and body. A body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            given = {"Content-Type": "application/json"} if body is not None else {}
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method or ("GET" if body is None else "POST"), self.base + path, data,
                               {**given, **dict(headers)})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, path, body):
        status, _, answer = self.ask(path, body)
        assert status == 200, answer
        return json.loads(answer)

    def head(self, path, length, more="", method="POST"):
        return (f"{method} {self.base}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"{more}Content-Length: {length}\r\n\r\n").encode()


def read_all(connection):
    """Until the other side closes, however it does."""
    come = b""
    try:
        while part := connection.recv(65536):
            come += part
    except ConnectionError:
        pass
    return come


def strings(value):
    """All that a JSON value has."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from strings(one)


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


class Serving(ProgramTest):
    def setUp(self):
        super().setUp()
        self.servers = []

    def serve(self, model="m", *arguments):
        server = Server(model, *arguments)
        self.addCleanup(server.__exit__)
        return server

    def assert_error(self, answer, status, says):
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(answer[1]["Content-Type"], "application/json")
        error = json.loads(answer[2])
        self.assertEqual(list(error), ["error"])
        self.assertIn(says, error["error"])
        self.assertNotIn("\n", error["error"])

    def assert_answers(self, server):
        self.assertEqual(len(server.json("translate", {"texts": ["el perro"]})["lines"]), 1)


class Answers(Serving):
    def test_translate(self):
        server = self.serve()
        lines = ["el perro come pan.", "", "la casa. y el gato."]
        printed = self.succeeds("translate", "--model", ROOT / "m", "--json", "--beam", "3", "--alignment",
                                stdin="\n".join(lines))
        answer = server.json("translate", {"texts": lines, "beam": 3, "alignment": True})
        self.assertEqual([{"line": i, **line} for i, line in enumerate(answer["lines"], 1)],
                         [json.loads(line) for line in printed.splitlines()])
        drawn = {"texts": lines[:1], "sample": True, "temperature": 2, "seed": 5}
        self.assertEqual(server.json("translate", drawn), server.json("translate", drawn))
        self.assertNotEqual(server.json("translate", drawn), server.json("translate", {**drawn, "seed": 6}))
        self.assertEqual(server.json("translate", {"texts": []}), {"lines": []})

    def test_generate(self):
        server = self.serve("w")
        status, headers, body = server.ask("generate", {"text": "el ", "max_tokens": 30, "seed": 7})
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        *pieces, last = map(json.loads, body.splitlines())
        self.assertEqual(last, {"done": True})
        self.assertGreater(len(pieces), 5)
        printed = self.succeeds("generate", "--model", ROOT / "w", "--no-prompt", "--max-tokens", "30", "--seed", "7",
                                "el ")
        self.assertIn(printed, ("".join(p["text"] for p in pieces) + end for end in ("", "\n")))
        self.assertEqual(server.ask("generate", {"text": "el ", "max_tokens": 0})[2], b'{"done":true}\n')

    def test_pieces_come_as_they_are_made(self):
        server = self.serve("w")
        with server.open() as connection:
            body = json.dumps({"text": "el ", "max_tokens": 1 << 20}).encode()
            connection.sendall(server.head("generate", len(body)) + body)
            come = b""
            while come.count(b'{"text":') < 20:
                come += connection.recv(4096)
            self.assertNotIn(b"done", come)
        begun = time.monotonic()  # nobody reads on: the model is free for others
        self.assertEqual(server.ask("generate", {"text": "a", "max_tokens": 1})[0], 200)
        self.assertLess(time.monotonic() - begun, 5 * SLOWER)

    @unittest.skipUnless((SHARED / "conformance/models").exists(), "needs shared/conformance/models, which is not here")
    def test_pieces_of_byte_tokens_are_whole_characters(self):
        model = SHARED / "conformance/models/gemma2"
        server = self.serve(model.resolve())
        for tokens in (1, 6, 20):
            with self.subTest(tokens):
                ask = {"text": "\u00bfQu\u00e9", "max_tokens": tokens, "temperature": 0}
                *pieces, last = map(json.loads, server.ask("generate", ask)[2].splitlines())
                self.assertEqual(last, {"done": True})
                # Each token is a byte that begins no character.
                self.assertEqual("".join(piece["text"] for piece in pieces), "\ufffd" * tokens)
                printed = self.succeeds("generate", "--model", model.resolve(), "--temperature", 0, "--max-tokens", tokens,
                                        "--no-prompt", ask["text"])
                self.assertEqual(printed, "\ufffd" * tokens + "\n")

    def test_embed(self):
        for model in ("m", "w", "bert"):
            with self.subTest(model):
                server = self.serve(model)
                texts = ["the dog", "", "the house is red"] * 30
                printed = self.succeeds("embed", "--model", ROOT / model, stdin="\n".join(texts))
                answer = server.json("embed", {"texts": texts})
                self.assertEqual(answer["cut"], [])
                # As the fewest digits that mean the same: equal texts are equal numbers.
                self.assertEqual(len(answer["vectors"]), 90)
                for vector, line in zip(answer["vectors"], printed.splitlines()):
                    for a, b in zip(vector, map(float, line.split()), strict=True):
                        self.assertAlmostEqual(a, b, delta=1e-5)
        self.assertEqual(server.json("embed", {"texts": ["dog", "dog " * 500, "dog"]})["cut"], [1])

    def data_of(self, page):
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
        data["blocks"] = re.findall(r'<script type="application/octet-stream" id="block\d+">(.*?)</script>', page)
        return data

    def test_attend_is_the_page(self):
        for model, text, more in (("m", "el perro come pan.", []), ("w", "el perro", ["--generate", "3"]),
                                  ("bert", "the dog sleeps", [])):
            with self.subTest(model):
                server = self.serve(model)
                self.succeeds("attend", "--model", ROOT / model, text, *more, "--html", f"{model}.html", "--quiet")
                page = (self.at / f"{model}.html").read_text()
                asked = {"text": text, **({"generate": 3} if more else {})}
                self.assertEqual(server.json("attend", asked), self.data_of(page))
                if not more:
                    status, headers, body = server.ask("?" + urllib.parse.urlencode({"text": text}))
                    self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
                    served = self.data_of(body.decode())
                    self.assertEqual(served.pop("live")["provider"], "server")
                    self.assertEqual(served, self.data_of(page))
                    self.assertIn("; connect-src 'self';", body.decode())
        server = self.serve()
        looked = server.json("attend", {"text": "el perro", "target": "the dog", "layer": 1})
        self.assertEqual(looked["text"], "the dog")

    def test_heads_may_be_changed(self):
        """As heed attend --without and --change do it; the next request has the model as it is."""
        for model, text, change, options in (
                ("m", "el perro come pan.", "Cross:1.2=0", ["--without", "1.2"]),
                ("m", "el perro come pan.", "Encoder:1.1=uniform,1.2=0.5", ["--encoder", "--change", "1.1=uniform,1.2=0.5"]),
                ("w", "el perro", "Self-attention:1.1=0", ["--without", "1.1"]),
                ("bert", "the dog sleeps", "Self-attention:1.1=own", ["--change", "1.1=own"])):
            with self.subTest(model, change=change):
                server = self.serve(model)
                self.succeeds("attend", "--model", ROOT / model, text, *options, "--html", "c.html", "--quiet")
                expected = self.data_of((self.at / "c.html").read_text())
                found = server.json("attend", {"text": text, "change": change})
                self.assertIn(f" of {change.partition(':')[0]}", found["comparedTitle"])
                self.assertIn(expected["comparedTitle"], found.pop("comparedTitle"))
                for key in found:
                    if key != "opens":
                        self.assertEqual(found[key], expected[key], key)
                statistics = [[group["statistics"] for group in found[key]] for key in ("groups", "compared")]
                self.assertTrue(any(one != two for _, one, two in found["predictions"]) or statistics[0] != statistics[1])
                after = server.json("attend", {"text": text})
                self.assertEqual(after["compared"], [])
                self.assertEqual((after["text"], after["steps"]), (found["text"], found["steps"]))
                self.assertEqual([group["statistics"] for group in after["groups"]], statistics[0])

    def test_a_page_without_a_text_asks_for_one(self):
        server = self.serve()
        for languages, says in (("en", "Type a text"), ("es-ES,es;q=0.9", "Escriba un texto"), ("", "Type a text")):
            status, headers, body = server.ask("", headers={"Accept-Language": languages})
            self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
            self.assertIn(says, body.decode())
            self.assertNotRegex(body.decode(), "@[A-Z]+@")
        status, headers, body = server.ask("", method="HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 500)

    def test_hostile_texts_stay_texts(self):
        for model in ("m", "bert"):
            server = self.serve(model)
            for text in HOSTILE:
                with self.subTest(model, text=text):
                    status, headers, body = server.ask("attend", {"text": text})
                    self.assertEqual(status, 200, body)
                    self.assertEqual((headers["Content-Type"], headers["X-Content-Type-Options"]),
                                     ("application/json", "nosniff"))
                    shown = json.loads(body)
                    for told in strings(shown):
                        self.assertNotRegex(told, "[\x00-\x1f\u202e]")
                    status, _, page = server.ask("?" + urllib.parse.urlencode({"text": text}))
                    self.assertEqual(status, 200, page)
                    self.assertEqual(page.count(b"<script"), len(shown["blocks"]) + 2)
                    self.assertEqual(page.count(b"<img"), 0)
        shutil.copytree(ROOT / "m", self.at / "<b>&m")
        page = self.serve(self.at / "<b>&m").ask("")[2]
        self.assertIn(b"<h1>&#60;b&#62;&#38;m</h1>", page)


class Refusals(Serving):
    def test_of_requests(self):
        server, writer = self.serve(), self.serve("w")
        for path, body, says in (
                ("translate", b"", "is not JSON"), ("translate", b"{", "is not JSON"),
                ("translate", b"[]", "send an object"), ("translate", b'{"texts":["a"]}x', "is not JSON"),
                ("translate", b'{"texts":["a"]}\0', "byte 15 is 0"), ("translate", b'{"texts":["\xff"]}', "is not JSON"),
                ("translate", b'{"texts":["\\ud800"]}', "surrogate"),
                ("translate", b'{"texts":["\\udc00a"]}', "is not JSON"), ("translate", b"{}", "texts is missing"),
                ("translate", b'{"texts":["a"],"texts":["b"]}', 'key "texts" twice'),
                ("translate", b'{"texts":' + b"[" * 100_000, "nested deeper than 8 levels"),
                ("translate", b'{"a":' * 50_000, "nested deeper than 8 levels"),
                ("translate", b'{"texts":["a"],"beam":' + b"9" * 400 + b"}", "is not JSON"),
                ("translate", b'{"texts":["a"],"bem":[' + b"{}," * 300_000 + b"{}]}", 'unknown key "bem"'),
                ("translate", {"texts": "a"}, 'texts is "a"; it must be a list of strings'),
                ("translate", {"texts": ["a", 5]}, "texts[1] is 5; it must be a string"),
                ("translate", {"texts": ["a"], "beam": 0}, "beam is 0; it must be a whole number from 1 to 64"),
                ("translate", {"texts": ["a"], "beam": 2.5}, "beam is 2.5; it must be"),
                ("translate", {"texts": ["a"], "beam": 1 << 63}, "it must be a whole number"),
                ("translate", {"texts": ["a"], "beam": True}, "beam is true; it must be"),
                ("translate", {"texts": ["a"], "seed": -1}, "from 0 to 2^64 - 1"),
                ("translate", {"texts": ["a"], "sample": 1}, "sample is 1; it must be true or false"),
                ("translate", {"texts": ["a"], "bem": 3}, 'unknown key "bem"; did you mean beam?'),
                ("translate", {"texts": ["a"], "zzz": "x" * 500}, 'unknown key "zzz"; there are texts, n_best, beam'),
                ("translate", {"texts": ["a"], "to": "xx"}, "the model's tokenizer has no languages"),
                ("translate", {"texts": ["a"], "sample": True, "top_p": 2}, "top_p is 2"),
                ("attend", {"text": ""}, "the text is empty; pass one with a word"),
                ("attend", {"text": None}, "text is null; it must be a string"),
                ("attend", {"text": "el", "layer": 9}, "layer is 9; the model has"),
                ("attend", {"text": "el", "generate": 2}, "leave out generate"),
                ("attend", {"text": "el", "change": "Cross"}, 'change is "Cross"; write each attention once'),
                ("attend", {"text": "el", "change": "Cross:1.1=0;Cross:1.2=0"}, "write each attention once"),
                ("attend", {"text": "el", "change": "Cross:1.1=nan"}, "what: a factor, uniform, previous or own"),
                ("attend", {"text": "el", "change": "Cross:1.1=0,1.1=2"}, "head 1.1 is named twice"),
                ("attend", {"text": "el", "change": "Encoder:1.1=0;Cross:9.1=0"}, "head 9.1 is not there"),
                ("attend", {"text": "el", "change": "Self-attention:1.1=0"}, "it has Encoder, Decoder and Cross"),
                ("attend", {"text": "el " * 300_000}, "tokens; of this model heed serve shows"),
                ("generate", {"text": "a"}, "this needs a language model"), ("embed", {"texts": [1]}, "texts[0] is 1")):
            with self.subTest(path, body=str(body)[:60]):
                self.assert_error(server.ask(path, body), 400, says)
        for path, body, says in (("translate", {"texts": ["a"]}, "this needs a model that translates"),
                                 ("generate", {"text": "a", "temperature": -1}, "temperature is -1; it must be"),
                                 ("generate", {"text": "a", "stop": [""]}, "stop has an empty text"),
                                 ("generate", {"text": "a", "stop": "x"}, "a list of strings"),
                                 ("generate", {"text": "a", "max_tokens": 1 << 40}, "max_tokens is 1099511627776"),
                                 ("attend", {"text": "a", "target": "b"}, "leave out target"),
                                 ("attend", {"text": "a" * 1000}, "1000 tokens, the model takes 16")):
            with self.subTest(path, body=str(body)[:60]):
                self.assert_error(writer.ask(path, body), 400, says)
        self.assert_answers(server)
        # The same text as the program's, which names the option.
        refused = self.heed("generate", "--model", ROOT / "w", "--temperature", "-1", "a").stderr.decode()
        error = json.loads(writer.ask("generate", {"text": "a", "temperature": -1})[2])["error"]
        self.assertEqual(refused, f"heed generate: --{error}\n")

    def test_of_hosts(self):
        """A name that somebody else points to this address is not answered."""
        server = self.serve()
        for host in ("localhost", "LOCALHOST:80", f"127.0.0.1:{server.port}", "[::1]:5", "192.168.7.7", "[::1]"):
            with self.subTest(host):
                self.assertEqual(server.ask("", headers={"Host": host})[0], 200)
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "localhost.evil.example",
                     "x" * 4000):
            with self.subTest(host):
                self.assert_error(server.ask("", headers={"Host": host}), 403, "as its host, which is not this server")
        for host in ("", "[", "[evil.example]", "[::1].evil.example", "127.0.0.1@evil.example", "127.0.0.1:80@evil.example",
                     "localhost, evil.example"):
            with self.subTest(host):
                self.assert_error(server.ask("", headers={"Host": host}), 400, "Host is no host with or without a port")
        self.assertEqual(status_of(server.raw(f"GET {server.base} HTTP/1.0\r\n\r\n".encode())), 403)
        named = self.serve("m", "--host", "localhost")
        self.assertTrue(named.address.startswith("http://localhost:"))

    def test_of_other_addresses(self):
        server = self.serve()
        self.assertRegex(server.address, r"\Ahttp://127\.0\.0\.1:\d+/[0-9a-f]{32}/\Z")
        self.assertNotEqual(server.base, self.serve().base)
        for path in ("/", "/" + "0" * 32 + "/", server.base[:-1], server.base[:-2] + "/", "/translate", "//" + server.base,
                     server.base.upper(), "/%00/", "/favicon.ico", "*", "http://localhost" + server.base):
            with self.subTest(path):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request("GET", path)
                answer = connection.getresponse()
                self.assert_error((answer.status, answer.headers, answer.read()), 404, "take the whole address")
                connection.close()
        for path in ("nothing", "translate/", "../translate", "translate%00", "x" * 5000):
            self.assert_error(server.ask(path), 404, "here; there are translate, generate, embed, attend")
        with self.assertRaises(OSError):  # bound to one address alone
            socket.create_connection(("127.0.0.2", server.port), timeout=5)

    def test_no_other_origin_may_read(self):
        server = self.serve()
        origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        answers = [server.ask("", headers=origin), server.ask("translate", {"texts": ["a"]}, headers=origin),
                   server.ask("translate", method="OPTIONS", headers=origin), server.ask("nothing", headers=origin)]
        self.assertEqual([a[0] for a in answers], [200, 200, 405, 404])
        for _, headers, _ in answers:
            self.assertFalse([name for name in headers if name.lower().startswith("access-control")])
            for name, value in (("Cross-Origin-Resource-Policy", "same-origin"), ("X-Frame-Options", "DENY"),
                                ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
                                ("Content-Security-Policy", "frame-ancestors 'none'")):
                self.assertEqual(headers[name], value)
        for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            answer = server.ask("translate", method=method)
            self.assert_error(answer, 405, f"'translate' does not take {method}; use POST")
            self.assertEqual(answer[1]["Allow"], "POST")
        self.assertEqual(server.ask("", b"{}", method="POST")[1]["Allow"], "GET, HEAD")
        for types in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            self.assert_error(server.ask("translate", b'{"texts":["a"]}', headers={"Content-Type": types}), 415,
                              "send application/json")

    def test_of_what_httplib_would_do(self):
        """Ranges, compressed bodies and answers, chunks."""
        server = self.serve()
        whole = server.ask("")[2]
        for more in ({"Range": "bytes=0-0," * 700 + "1-1"}, {"Range": "bytes=0-3"}, {"rAnGe": "bytes=-1"},
                     {"Accept-Encoding": "br, gzip"}):
            status, headers, body = server.ask("", headers=more)
            self.assertEqual((status, body, headers["Content-Encoding"]), (200, whole, None))
        self.assert_error(server.ask("translate", b"\x1f\x8b" + bytes(50), headers={"Content-Encoding": "gzip"}), 415,
                          "encoded by 'gzip'")
        chunked = server.head("translate", 5, "Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n"
        self.assertEqual(status_of(server.raw(chunked)), 400)
        self.assertEqual(status_of(server.raw(chunked.replace(b"Content-Length: 5\r\n", b""))), 411)
        unknown = server.head("translate", 5).replace(b"Content-Length: 5\r\n", b"")
        self.assertEqual(status_of(server.raw(unknown)), 411)

    def test_of_heads_that_can_be_read_in_two_ways(self):
        """src/serve/request_head_test.cc has all of them; here they come over a connection."""
        server = self.serve()
        body = b'{"texts": ["el perro"]}'
        good = server.head("translate", len(body)) + body
        self.assertEqual(status_of(server.raw(good)), 200)
        length = b"Content-Length: 23\r\n"
        for old, new in ((length, length + b"Content-Length: 22\r\n"), (length, b"Content-Length: 23, 23\r\n"),
                         (length, b"Content-Length: +23\r\n"), (length, length + b"Transfer-Encoding : chunked\r\n"),
                         (length, length + b"X: y\r\n Transfer-Encoding: chunked\r\n"),
                         (b"Host: localhost\r\n", b"Host: localhost\r\nHost: evil.example\r\n"),
                         (b"Host: localhost\r\n", b"Host: 127.0.0.1\0evil\r\n"), (b"Host: localhost\r\n", b""),
                         (b"Host: localhost\r\n", b"Host: localhost\nX: y\r\n")):
            with self.subTest(new):
                answer = server.raw(good.replace(old, new))
                self.assertEqual(status_of(answer), 400, answer)
                self.assertIn(b'{"error":"', answer)
        self.assert_answers(server)

    def test_of_uses(self):
        self.refuses(1, "none", "serve", "--model", "none")
        self.refuses(2, "heed serve answers with models of texts", "serve", "--model", ROOT / "vit")
        self.refuses(2, "--port", "serve", "--model", ROOT / "m", "--port", "70000")
        server = self.serve()
        model = ["serve", "--model", ROOT / "m"]
        self.refuses(1, f"heed serve: cannot listen on 127.0.0.1, port {server.port}: Address already in use\n", *model,
                     "--port", server.port)
        self.refuses(1, "cannot listen on name.invalid, port 0: ", *model, "--host", "name.invalid")
        self.refuses(1, "cannot listen on 192.0.2.1, port 0: ", *model, "--host", "192.0.2.1")
        self.refuses(2, "--host: it is empty", "serve", "--host", "")
        read, write = os.pipe()
        os.close(read)
        done = self.heed("serve", "--model", ROOT / "m", stdout=write)
        os.close(write)
        self.assertEqual((done.returncode, done.stderr), (141, b""))


class Bounds(Serving):
    def test_large_bodies(self):
        server = self.serve()
        size = 100_000_000
        begun = time.monotonic()
        for more in ("", "Expect: 100-continue\r\n"):
            with self.subTest(more), server.open() as connection:
                connection.sendall(server.head("translate", size, more))
                sent, part = 0, bytes(1 << 20)
                try:
                    while sent < size:
                        sent += connection.send(part)
                except ConnectionError:
                    pass
                self.assertEqual(status_of(read_all(connection)), 413)
        self.assertEqual(status_of(server.raw(server.head("translate", 1 << 59))), 413)
        for length in (1 << 62, 1 << 64, -1):
            self.assertEqual(status_of(server.raw(server.head("translate", length))), 400)
        self.assertLess(time.monotonic() - begun, 30 * SLOWER)
        inside = json.dumps({"texts": ["el perro " * 1000]}).encode().ljust(1 << 20)
        self.assertEqual(server.ask("translate", inside)[0], 200)
        self.assert_error(server.ask("translate", inside + b" "), 413, "larger than 1048576 bytes")
        self.assert_answers(server)

    def test_large_heads(self):
        server = self.serve()
        line = f"GET {server.base} HTTP/1.1\r\nHost: localhost\r\n".encode()
        self.assertEqual(status_of(server.raw(line + b"X: " + b"y" * 100_000)), 431)
        self.assertEqual(status_of(server.raw(line + b"X: y\r\n" * 20_000)), 431)
        self.assertEqual(status_of(server.raw(f"GET {server.base}?text={'y' * 10_000} HTTP/1.1\r\n\r\n".encode())), 414)
        self.assertIn(status_of(server.raw(b"GET / HTTP/9.9\r\n\r\n")), (400,))
        self.assertIn(status_of(server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")), (400, None))
        self.assert_answers(server)

    def test_many_texts_and_long_errors(self):
        server = self.serve()
        most = {"texts": [""] * 4096}
        self.assertEqual(len(server.json("embed", most)["vectors"]), 4096)
        for path, body, says in (("embed", {"texts": [""] * 4097}, "texts has 4097 strings; at most 4096 are taken at once"),
                                 ("translate", {"texts": ["a"] * 200_000}, "texts has 200000 strings"),
                                 ("translate", {"texts": ["el"], "length_penalty": -1e308}, "length_penalty is to be in the range"),
                                 ("translate", {**most, "n_best": 2}, "ask for 8192 translations; at most 4096 are made"),
                                 ("translate", {"texts": ["el " * 3000] * 9, "alignment": True}, "have alignments of more than")):
            with self.subTest(says):
                self.assert_error(server.ask(path, body), 400, says)
        answer = server.ask("attend", {"text": "el perro", "change": "Cross:" + "x" * 600_000})
        self.assertEqual(answer[0], 400)
        self.assertLess(len(answer[2]), 1200)
        writer = self.serve("w")
        self.assert_error(writer.ask("generate", {"text": "el", "stop": ["x"] * 65}), 400, "stop has 65 strings; at most 64")

    def test_bodies_that_come_slowly(self):
        """Only so many are there at once, whatever the number of connections."""
        server = self.serve()
        whole = server.head("translate", 1 << 20)
        connections = self.many(server, 100, whole + b"{")
        poll = select.poll()
        for connection in connections:
            poll.register(connection, select.POLLIN)
        begun = time.monotonic()
        while len(away := {number for number, _ in poll.poll(100)}) < 36:  # 64 MiB of bodies may come
            self.assertLess(time.monotonic() - begun, 10)
        time.sleep(0.5)
        self.assertEqual(len(poll.poll(0)), 36)
        for connection in connections:
            if connection.fileno() in away:
                self.assertEqual(status_of(read_all(connection)), 503)
            connection.close()
        self.assertLess(self.seconds_of(server), 10 * SLOWER)

    def test_slow_clients(self):
        """Those that send a letter now and then are late as a whole; meanwhile others are answered."""
        server = self.serve()
        body = server.head("translate", 1000)
        slow = [server.open(), server.open(), server.open()]
        slow[0].sendall(body[:20])
        slow[1].sendall(body + b"{")
        begun = time.monotonic()
        while time.monotonic() - begun < 19:
            for connection, letter in zip(slow[:2], (b"x", b" ")):
                connection.sendall(letter)
            self.assertLess(self.seconds_of(server), 5 * SLOWER)
            time.sleep(1)
        answers = [read_all(connection) for connection in slow]
        self.assertLess(time.monotonic() - begun, 25 * SLOWER)
        # Who has said nothing hears nothing.
        self.assertEqual([status_of(answer) for answer in answers], [408, 408, None])
        self.assertIn(b"did not come within 20 seconds", answers[1])
        for connection in slow:
            connection.close()

    def seconds_of(self, server):
        begun = time.monotonic()
        self.assert_answers(server)
        return time.monotonic() - begun

    def test_half_requests(self):
        server = self.serve()
        request = server.head("translate", 20) + b'{"texts":["el"]}    '
        for cut in range(0, len(request), 7):
            with server.open() as connection:
                connection.sendall(request[:cut])
                if cut % 2:  # as one that is killed does
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assert_answers(server)

    def many(self, server, count, text):
        """Connections that have sent this."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 2 * count:
            self.skipTest("SKIPPED: too few open files are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * count), hard))
        connections = []
        self.addCleanup(lambda: [connection.close() for connection in connections])
        for _ in range(count):
            connections.append(server.open())
            connections[-1].sendall(text)
        return connections

    def test_a_thousand_slow_connections(self):
        server = self.serve()
        connections = self.many(server, 1000, server.head("translate", 1000)[:30])
        self.assertLess(self.seconds_of(server), 10 * SLOWER)
        for connection in connections:
            connection.close()
        self.assertLess(self.seconds_of(server), 10 * SLOWER)

    def test_a_thousand_requests_at_once(self):
        server = self.serve()
        body = json.dumps({"texts": ["el perro"], "beam": 1}).encode()
        connections = self.many(server, 1000, server.head("translate", len(body)) + body)
        answers = [read_all(connection) for connection in connections]
        found = [status_of(answer) for answer in answers]
        self.assertEqual({200, 503} | set(found), {200, 503})
        self.assertGreater(found.count(200), 32)
        self.assertTrue(all(b"Retry-After: 1\r\n" in a for a in answers if status_of(a) == 503))
        self.assert_answers(server)

    def test_more_connections_than_there_may_be(self):
        server = self.serve()
        connections = self.many(server, 1300, b"GET ")
        poll = select.poll()
        for connection in connections:
            poll.register(connection, select.POLLIN)
        begun = time.monotonic()
        while len(away := {number for number, _ in poll.poll(100)}) < 90:
            self.assertLess(time.monotonic() - begun, 15)
        found = [status_of(read_all(connection)) for connection in connections if connection.fileno() in away]
        self.assertIn(503, found)
        self.assertLessEqual(set(found), {503, None})  # the system may drop what the closed end has sent
        for connection in connections:
            connection.close()
        self.assertLess(self.seconds_of(server), 30 * SLOWER)

    def test_one_at_a_time(self):
        """One is answered, one waits, others are told to come back; who leaves makes room."""
        server = self.serve("w", "--waiting", "1")
        body = json.dumps({"text": "el ", "max_tokens": 1 << 20}).encode()
        first = server.open()
        first.sendall(server.head("generate", len(body)) + body)
        self.assertIn(b"200", first.recv(4096))
        second = server.open()
        short = json.dumps({"text": "el ", "max_tokens": 2}).encode()
        second.sendall(server.head("generate", len(short)) + short)
        time.sleep(0.5)
        answer = server.ask("generate", {"text": "a"})
        self.assert_error(answer, 503, "1 requests wait already; try again in a moment")
        self.assertEqual(answer[1]["Retry-After"], "1")
        second.close()  # what waits is forgotten
        time.sleep(0.5 * SLOWER)
        third = server.open()
        third.sendall(server.head("generate", len(short)) + short)
        time.sleep(0.5)
        self.assertEqual(server.ask("generate", {"text": "a"})[0], 503)
        first.close()
        self.assertIn(b'{"done":true}', read_all(third))
        third.close()
        self.assertEqual(server.ask("generate", {"text": "a", "max_tokens": 1})[0], 200)

    def test_the_limit_of_time(self):
        server = self.serve("w", "--time-limit", "0.5")
        begun = time.monotonic()
        *_, last = server.ask("generate", {"text": "el ", "max_tokens": 1 << 20})[2].splitlines()
        self.assertIn("longer than 0.5 seconds", json.loads(last)["error"])
        self.assertLess(time.monotonic() - begun, 5 * SLOWER)
        translator = self.serve("m", "--time-limit", "0.05")
        long = {"texts": ["el perro come pan"] * 4096, "beam": 64}
        self.assert_error(translator.ask("translate", long), 503, "longer than 0.05 seconds")
        self.assertEqual(server.ask("generate", {"text": "a", "max_tokens": 1})[0], 200)

    def test_whatever_is_sent(self):
        server = self.serve()
        choose = random.Random(11)
        whole = server.head("translate", 30) + b'{"texts":["el perro"]}        '
        for _ in range(60 if SANITIZED else 400):
            text = bytearray(whole)
            for _ in range(choose.randint(1, 8)):
                at = choose.randrange(len(text))
                text[at:at + choose.randint(0, 3)] = bytes(choose.randrange(256) for _ in range(choose.randint(0, 3)))
            with server.open() as connection:
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                read_all(connection)
        self.assert_answers(server)
        self.assertIsNone(server.process.poll())

    def test_threads_that_ask_together(self):
        server = self.serve("bert")
        alone = server.json("embed", {"texts": ["the dog barks"]})
        found, errors = [], []

        def ask():
            try:
                for _ in range(5):
                    found.append(server.json("embed", {"texts": ["the dog barks"]}))
            except Exception as error:  # reported below, in the test's own thread
                errors.append(error)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(found, [alone] * 40)


class Ending(Serving):
    def test_signals(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(how):
                server = self.serve("w")
                stream = server.open()
                body = json.dumps({"text": "el ", "max_tokens": 1 << 20}).encode()
                stream.sendall(server.head("generate", len(body)) + body)
                stream.recv(4096)
                idle, half = server.open(), server.open()
                half.sendall(b"POST ")
                begun = time.monotonic()
                status, error = server.end(how)
                self.assertLess(time.monotonic() - begun, 5 * SLOWER)
                self.assertEqual((status, error), (128 + how, f"serving {ROOT / 'w'}; Ctrl-C ends it\n"))
                for connection in (stream, idle, half):
                    read_all(connection)
                    connection.close()
                # The port is free at once.
                again = self.serve("w", "--port", str(server.port), "--quiet")
                self.assertEqual(again.port, server.port)
                self.assertEqual(again.end(how), (128 + how, ""))

    @unittest.skipIf(SANITIZED, "SKIPPED: a sanitizer maps terabytes")
    def test_little_memory(self):
        for megabytes in (40, 80, 120, 200, 400):
            with self.subTest(megabytes):
                process = subprocess.Popen(
                    [HEED, "serve", "--model", ROOT / "m", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2))
                line = process.stdout.readline().decode()
                if line:  # there was enough to begin: requests are answered, or the connection ends
                    address = urllib.parse.urlsplit(line.strip())
                    for _ in range(3):
                        try:
                            with socket.create_connection(("127.0.0.1", address.port), timeout=60) as connection:
                                body = b'{"texts":["el perro"]}'
                                connection.sendall(f"POST {address.path}translate HTTP/1.1\r\nHost: localhost\r\n"
                                                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                                                   "\r\n".encode() + body)
                                self.assertIn(status_of(read_all(connection)), (200, 500, 503, None))
                        except ConnectionRefusedError:
                            break
                    process.terminate()
                _, error = process.communicate(timeout=60)
                self.assertLessEqual(error.count(b"\n"), 1, error)
                self.assertIn(process.returncode, (1, 127, 143), error)


if __name__ == "__main__":
    unittest.main()
