"""The pages of heed serve in a real browser: a text is typed, and the program that the page came from reads it."""
import re
import signal
import unittest

import browser
from browser import Keys
from pages import MODEL
from serve_test import HOSTILE, Server, setUpModule  # noqa: F401 (unittest calls setUpModule)

FIRST, SECOND = "El perro come.", "La casa tiene una puerta roja."


class Served(browser.Browser):
    def serve(self, model=MODEL):
        """Opens the address that a new server prints."""
        server = Server(model)
        self.addCleanup(server.__exit__)
        self.servers = (*self.servers, server.address)
        self.driver.get(server.address)
        return server

    def line(self):
        return self.texts("#live-line")[0]

    def begin(self, text=FIRST):
        """Types the first text, into the page that asks for one."""
        box = self.one("input[name=text]")
        box.send_keys(text, Keys.ENTER)
        self.alive()

    def alive(self):
        self.wait(lambda: self.js("return document.documentElement.dataset.alive") == "true", "the page is not alive")

    def type(self, text):
        self.js("""
            document.getElementById('typed').value = arguments[0];
            document.getElementById('live').requestSubmit();""", text)

    def answered(self, text):
        self.type(text)
        self.wait(lambda: self.texts("h1") == [text] and " ms" in self.line(), self.line())

    def alien(self):
        """How many elements a text has become."""
        return self.js("return document.querySelectorAll('main script, main img, h1 *, #live img').length")

    def test_a_text_is_typed_and_seen(self):
        self.serve()
        self.assertEqual(self.texts("h1"), [MODEL.name])
        self.begin()
        self.assertEqual(self.texts("h1"), [FIRST])
        self.assertIn("dog", self.texts("#text")[0])
        self.one("#views [data-value=head]").click()
        self.wait(lambda: self.texts("#tokens-key bdi"))
        self.one("#typed").send_keys(SECOND)
        self.wait(lambda: self.texts("h1") == [SECOND] and " ms" in self.line(), self.line())
        self.assertIn("door", self.texts("#text")[0])
        self.assertIn("puerta", [token.strip("\u00b7") for token in self.texts("#tokens-key bdi")])
        self.assertIn("door", [token.strip("\u00b7") for token in self.texts("#tokens-query bdi")])
        self.one("#tokens-query li").click()
        shares = [float(share) for share in self.texts("#tokens-key .amount") if share]
        self.assertAlmostEqual(sum(shares), 1, delta=0.05)
        for view, shown in [("story", ".lead"), ("model", ".tile"), ("inside", ".steps-table"),
                            ("steps", "#alignment td"), ("head", ".tokens li")]:
            with self.subTest(view):
                self.one(f"#views [data-value={view}]").click()
                self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == view)
                self.assertTrue(self.all(shown))
        self.assertEqual(self.texts(".trouble"), [])
        asked = self.requests_of("attend")
        self.assertEqual(len(asked), 1, asked)

    def requests_of(self, path):
        """The requests for `path` that the page has made."""
        return self.js("""
            return performance.getEntriesByType('resource').map(e => e.name).filter(n => n.endsWith('/' + arguments[0]))
            """, path)

    def test_the_address_has_the_text(self):
        self.serve()
        self.begin()
        self.answered(SECOND)
        address = self.driver.current_url
        self.assertIn("&text=La+casa", address)
        self.driver.back()
        self.wait(lambda: self.texts("h1") == [FIRST])
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(lambda: self.texts("h1") == [SECOND] and " ms" in self.line())
        self.assertEqual(self.driver.current_url, address)

    def test_hostile_texts_stay_texts(self):
        self.serve()
        self.begin()
        for text in HOSTILE:
            with self.subTest(text):
                self.js("document.getElementById('live-line').textContent = ''")
                self.type(text)
                self.wait(lambda: " ms" in self.line(), self.line())
                self.assertEqual(self.alien(), 0)
                self.assertNotRegex(self.texts("h1")[0], "[\x00-\x1f\u202e]")
        for text in HOSTILE[:3]:  # into the page that asks for one
            self.driver.get(self.servers[0])
            self.begin(text)
            self.assertEqual(self.texts("h1"), [text])
            self.assertEqual(self.alien(), 0)

    def test_what_the_model_does_not_take_is_one_line(self):
        self.serve()
        self.begin()
        for text, says in [("palabra " * 130000, "too long"), ("casa " * 600, "did not work: ")]:
            self.type(text)
            self.wait(lambda: says in self.line(), self.line())
            self.assertEqual(len(self.line().splitlines()), 1)
        # Chromium writes a line of its own about an answer of 400.
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        self.assertTrue(all(re.search(r"/attend - Failed to load resource: .*400", m) for m in messages), messages)
        self.assertEqual(self.texts("h1"), [FIRST])
        self.answered(SECOND)

    def test_a_server_that_has_gone_away(self):
        server = self.serve()
        self.begin()
        server.end(signal.SIGTERM)
        self.type(SECOND)
        self.wait(lambda: "does not answer" in self.line(), self.line())
        self.assertEqual(len(self.line().splitlines()), 1)
        self.assertEqual(self.js("return document.querySelectorAll('#live-line.trouble').length"), 1)
        messages = [entry["message"] for entry in self.driver.get_log("browser")]
        self.assertEqual(len(messages), 1, messages)
        self.assertIn("/attend - Failed to load resource: net::ERR_CONNECTION_REFUSED", messages[0])
        # What is there can still be looked at.
        self.one("#views [data-value=model]").click()
        self.wait(lambda: self.all(".tile"))
        self.assertEqual(self.texts("h1"), [FIRST])

    def test_a_language_model_and_an_encoder(self):
        for model, kind in (("w", "Read"), ("bert", "Read")):
            with self.subTest(model):
                self.serve(model)
                self.begin("the dog")
                self.assertEqual(self.texts("#live button"), [kind])
                self.answered("the red house")
                self.one("#views [data-value=model]").click()
                self.wait(lambda: self.all(".tile"))

    def test_spanish(self):
        agent = self.js("return navigator.userAgent")
        speak = lambda languages: self.driver.execute_cdp_cmd(
            "Emulation.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": languages})
        self.addCleanup(speak, "en-US,en")
        speak("es-MX,es,en")
        self.serve()
        self.assertIn("Escriba un texto", self.one("main").text)
        self.begin()
        self.assertEqual(self.texts("#live label"), ["Escriba otra frase"])


if __name__ == "__main__":
    browser.main()
