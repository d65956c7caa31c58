"""What is around the views of the page: exports, keys, screens, texts that are hostile or long, the command that writes it."""
import random
import socket
import subprocess
import time
import unittest
import xml.etree.ElementTree

import browser
from browser import ActionChains, Keys
from pages import MODEL, PAGE, SOURCE, Browser, Group, made
from program import HEED


class Export(Browser):
    def test_every_view(self):
        for where in ["view=story", "view=model", "view=model&group=1", "view=head&heads=0,4&query=1", "view=head&display=map&heads=2",
                      "view=head&display=text&heads=2", "view=inside&heads=0", "view=steps&step=2"]:
            with self.subTest(where):
                self.open(where)
                svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
                self.assertEqual(svg.tag, "{http://www.w3.org/2000/svg}svg")
                kinds = {e.tag.split("}")[1] for e in svg.iter()}
                self.assertLessEqual(kinds, {"svg", "title", "rect", "path", "text", "image"})
                words = [e.text for e in svg.iter("{http://www.w3.org/2000/svg}text")]
                self.assertIn(PAGE["title"], words)
                png = self.saved("PNG")
                self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
                self.assertEqual(png[-8:-4], b"IEND")
                width, height = (int.from_bytes(png[at:at + 4], "big") for at in (16, 20))
                self.assertAlmostEqual(width, 2 * float(svg.get("width")), delta=2)
                self.assertAlmostEqual(height, 2 * float(svg.get("height")), delta=2)
                self.assertGreater(len(png), 2000)
                self.assertTrue(self.table())

    def test_numbers_sum_to_the_row(self):
        self.open("view=head&heads=0,1,2,3,4,5")
        sums = {}
        for row in self.table():
            at = row["layer"], row["head"], row["query"]
            sums[at] = sums.get(at, 0) + float(row["weight"])
        self.assertEqual(len(sums), 6 * 7)
        for at, total in sums.items():
            self.assertAlmostEqual(total, 1, delta=1e-5, msg=str(at))


class LongInput(Browser):
    def test_sparse_rows(self):
        tokens = [f"t{i}" for i in range(300)]
        group = Group("Long", tokens, tokens, layers=1, heads=2, sharp=1.0)
        path = self.at / "long.html"
        path.write_bytes(made({"title": "long", "groups": [group.json()]}))
        self.open("view=head&heads=0,1", path)
        kept, left = {}, {}
        for row in self.table():
            at = int(row["head"]) - 1, int(row["query"]) - 1
            if row["key"]:
                kept.setdefault(at, {})[int(row["key"]) - 1] = float(row["weight"])
            else:
                left[at] = float(row["weight"])
        most = 0
        for (head, i), row in kept.items():
            true = group.weights[head][i]
            largest = sorted(range(300), key=lambda j: -true[j])[:48]
            self.assertLessEqual(len(row), 48)
            self.assertLessEqual(set(row), set(largest))
            dropped = 1 - sum(true[j] for j in row)
            self.assertTrue(len(row) == 48 or dropped <= 0.0051)
            self.assertAlmostEqual(left.get((head, i), 0), dropped, delta=2e-5)
            self.assertAlmostEqual(sum(row.values()) + left.get((head, i), 0), 1, delta=1e-5)
            for j, w in row.items():
                self.assertAlmostEqual(w, true[j], delta=0.006 * max(true))
            most = max(most, dropped)
        self.assertEqual(len(kept), 600)
        self.assertIn("in 8 bits", self.one("#foot").text)
        self.assertIn(f"{100 * most:.0f} % at most", self.one("#foot").text)
        self.all("#tokens-query li")[5].click()
        self.assertIn("not stored", self.one(".detail").text)


    def test_steps(self):
        words = [f"w{i}" for i in range(380)]  # more weights in the table of alignments than a call takes arguments
        group = Group("Cross", words, words, layers=1, heads=1, sharp=1.0, step_keys="input")
        page = {"title": "long", "groups": [group.json()], "steps": [{"token": w, "candidates": [[w, 1.0]]} for w in words]}
        path = self.at / "steps.html"
        path.write_bytes(made(page))
        self.open("view=steps&step=379", path)
        self.assertEqual(len(self.all("#alignment tbody tr")), 380)
        self.assertEqual(self.texts("#produced .now"), ["w379"])
        self.open("view=inside&query=379", path)
        self.assertIn(b"<svg", self.saved("SVG"))


class Odd(Browser):
    def test_rows_that_are_no_weights(self):
        values = [0.5, 0.5, 0.2, 0.2, None, 1, 0, 0]
        page = {"title": "odd", "groups": [{"weights": {"shape": [4, 2], "values": values}}]}
        path = self.at / "odd.html"
        path.write_bytes(made(page))
        self.open("view=head", path)
        self.assertIn("flagged", self.one("#foot").text)
        notes = " ".join(self.texts(".note.flag"))
        for says in ["1 row does not sum to 1 (query 2 sums to 0.4)", "1 row is all zero", "1 weight is not finite"]:
            self.assertIn(says, notes)
        for query, says in [(1, "sums to 0.400"), (2, "not finite"), (3, "all zero")]:
            self.all("#tokens-query li")[query].click()
            self.wait(lambda: says in self.one(".detail").text)
            self.all("#tokens-query li")[query].click()

    def test_one_token(self):
        path = self.at / "one.html"
        path.write_bytes(made({"groups": [{"weights": {"shape": [1, 1], "values": [1]}}]}))
        self.open("", path)
        self.assertEqual(self.texts("#views button"), ["Story", "Model", "Head"])
        self.view("head")
        self.assertEqual(self.texts("#tokens-key bdi"), ["1"])


class Keyboard(Browser):
    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.js("const e = document.activeElement; return e.getAttribute('data-value') ?? e.getAttribute('data-head') ?? e.getAttribute('data-token') ?? e.id")

    def test_views_heads_and_tokens(self):
        self.open("view=model")
        self.press(Keys.TAB)
        self.assertEqual(self.focused(), "model")
        self.press(Keys.ARROW_RIGHT, Keys.ENTER)
        self.wait(lambda: self.js("return document.getElementById('view').dataset.view") == "head")
        self.assertEqual(self.focused(), "head")
        self.press("2")
        self.wait(lambda: self.all(".tile"))
        self.js("document.querySelector('.tile').focus()")
        self.press(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
        self.assertEqual(self.focused(), "4")
        self.press(Keys.ENTER)
        self.wait(lambda: self.all(".pick[data-head='4'][aria-pressed=true]"))
        self.press("]")
        self.wait(lambda: self.all(".pick[data-head='5'][aria-pressed=true]"))
        self.press("{")
        self.wait(lambda: self.all(".pick[data-head='2'][aria-pressed=true]"))
        self.js("document.querySelector('#tokens-query li').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.wait(lambda: self.texts(".detail h2") == [SOURCE[2]])
        self.press(Keys.ARROW_RIGHT)
        self.assertEqual(self.js("return document.activeElement.closest('ul').id"), "tokens-key")
        self.press(Keys.ENTER)
        self.assertTrue(self.js("return document.activeElement.getAttribute('aria-selected')") == "true")
        self.press(Keys.ESCAPE)
        self.wait(lambda: not self.all(".detail h2"))

    def test_everything_is_reached_by_tab(self):
        for where in ["view=story", "view=story&tour=3", "view=model", "view=head", "view=head&display=map", "view=inside",
                      "view=steps"]:
            with self.subTest(where):
                self.open(where)
                groups = self.js("""
                    const ways = new Set();
                    for (const e of document.querySelectorAll('button, select, input, li[role=option], canvas[tabindex]')) {
                      if (e.disabled || e.tabIndex >= 0 || e.offsetParent === null) continue;
                      const list = e.closest('[role=tablist], .tiles, .picker, ul, .chips');
                      ways.add(list && list.querySelector('[tabindex="0"]') ? 'list' : e.outerHTML.slice(0, 80));
                    }
                    return [...ways]""")
                self.assertLessEqual(set(groups), {"list"})
                nameless = self.js("""
                    return [...document.querySelectorAll('button, select, input, [role=img], [role=listbox]')].filter(
                      e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim()))
                      .map(e => e.outerHTML.slice(0, 80))""")
                self.assertEqual(nameless, [])

    def test_map_by_arrows(self):
        self.open("view=head&display=map&heads=0")
        self.js("document.getElementById('map').focus()")
        self.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.wait(lambda: self.one("#say").get_attribute("textContent").startswith(f"{SOURCE[0]} attends to {SOURCE[1]}"))


class Screens(Browser):
    VIEWS = ["view=story", "view=story&tour=2", "view=model", "view=head", "view=head&display=map", "view=head&display=text", "view=inside", "view=steps"]

    def test_a_phone_scrolls_one_way(self):
        self.screen(390, 844, phone=True)
        for where in self.VIEWS:
            with self.subTest(where):
                self.open(where)
                self.assertLessEqual(self.js("return document.documentElement.scrollWidth"), 390)

    def test_dark_and_light(self):
        for dark, low, high in [(True, 0, 60), (False, 200, 255)]:
            self.screen(1300, 900, dark=dark)
            for where in self.VIEWS:
                with self.subTest(where, dark=dark):
                    self.open(where)
                    back = self.js("return getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")
                    self.assertTrue(all(low <= int(c) <= high for c in back), back)

    def test_reduced_motion(self):
        for reduced in (False, True):
            self.screen(1300, 900, reduced=reduced)
            self.open("view=steps")
            moves = self.js("return getComputedStyle(document.querySelector('.chip')).transitionDuration")
            self.assertEqual(moves == "0s", reduced, moves)

    def test_print(self):
        import base64
        self.screen(1300, 900, dark=True)
        for where in self.VIEWS:
            with self.subTest(where):
                self.open(where)
                pdf = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
                self.assertEqual(pdf[:5], b"%PDF-")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        left = "return [...document.querySelectorAll('#tools > :not(.scale)')].filter(e => e.checkVisibility()).length"
        self.wait(lambda: self.js(left) == 0)
        self.assertEqual(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")


# ------------------------------------------------------------------------------------------------ tokens are data

RUN = "window.ran=(window.ran||0)+1"
HOSTILE = ["</script>", f"</script><script>{RUN}</script>", f"<img src=x onerror=\"{RUN}\">", f"\"><svg onload={RUN}>",
           "<!--", "-->", "<!--<script>", "]]>", "&lt;b&gt;", "&#60;script&#62;", "'", '"', "`${" + RUN + "}`", "\\", "\\u003c",
           f"javascript:{RUN}", f"{{{{{RUN}}}}}", f"<style>*{{background:url(http://127.0.0.1:9/x)}}</style>",
           "<link rel=stylesheet href=http://127.0.0.1:9/y>", f"<iframe srcdoc='<script>parent.{RUN}</script>'>",
           "__proto__", "constructor", "toString", "=1+1", "שלום עולם", "مرحبا", "\u202eabc", "👩‍👩‍👧‍👦🏳️‍🌈", "e" + "\u0301" * 40,
           "한국어", "ไทย", "\0", "a\0b", "\n", "\r", "\t", "\x1b[31m", "\u2028", "\ufeff", "", " ", "x" * 10000,
           "@SCRIPT@", "<!--data-->", "</style>", "<base href=http://127.0.0.1:9/>",
           "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>", "<form action=http://127.0.0.1:9/><button>"]


class Hostile(Browser):
    def look_everywhere(self, path, tokens):
        nodes = None
        for where in ["view=story", "view=story&tour=4", "view=model", "view=head&query=0", "view=head&query=0&display=map", "view=head&query=1&display=text",
                      "view=inside&query=1", "view=steps", "view=compare"]:
            self.open(where, path)
            self.assertIsNone(self.js("return window.ran ?? null"), where)
            scripts = self.js("return [...document.scripts].filter(s => s.type === 'module' || !s.type).length")
            self.assertEqual(scripts, 1, where)
            alien = self.js("return [...document.body.querySelectorAll('img, svg, iframe, object, embed, link, base, meta, form:not(#live), style, video')].length")
            self.assertEqual(alien, 0, where)
            self.assertEqual(self.js("return document.querySelectorAll('[onerror], [onload], [onclick], [style*=url]').length"), 0)
            if "display" not in where and "head" in where:
                nodes = self.texts("#tokens-key bdi")
        svg = xml.etree.ElementTree.fromstring(self.saved("SVG"))
        self.assertLessEqual({e.tag.split("}")[1] for e in svg.iter()}, {"svg", "title", "rect", "path", "text", "image"})
        self.assertIsNone(self.js("return window.ran ?? null"))
        self.assertEqual(len(nodes), len(tokens))
        return nodes

    def page_of(self, tokens, name="hostile.html"):
        group = Group(tokens[0] or "g", tokens, tokens, layers=1, heads=1, size=2, note=tokens[-1], value_labels=tokens, step_keys="input")
        steps = [{"token": t, "candidates": [[t, 0.5], [tokens[0], 0.25]]} for t in tokens]
        page = {"title": tokens[1], "text": tokens[2], "groups": [group.json()], "steps": steps,
                "compared": [group.json()], "compared_title": tokens[-1], "compared_text": tokens[0]}
        path = self.at / name
        path.write_bytes(made(page))
        self.assertEqual(path.read_bytes().count(b"</script>"), path.read_bytes().count(b"<script"))
        return path

    def test_each_known_one(self):
        shown = self.look_everywhere(self.page_of(HOSTILE), HOSTILE)
        for token, text in zip(HOSTILE, shown):
            if token.isprintable() and token.strip() and not set(token) & set("\u202e\ufeff\u200d"):
                self.assertEqual(text, token)
        for token, text in [("\0", "\\x00"), ("a\0b", "a\\x00b"), ("\n", "\\n"), ("\u202eabc", "\\u{202E}abc"),
                            ("", "(empty)"), (" ", "\u2423")]:
            self.assertEqual(shown[HOSTILE.index(token)], text)
        self.assertEqual(shown[HOSTILE.index("👩‍👩‍👧‍👦🏳️‍🌈")], "👩‍👩‍👧‍👦🏳️‍🌈")

    def test_random_ones(self):
        choose = random.Random(20)
        characters = "<>\"'`&;=/\\!-{}$ \0\n\u2028aא😀\u0301scriptonerror"
        for n in range(6):
            with self.subTest(n):
                tokens = ["".join(choose.choice(HOSTILE if choose.random() < 0.4 else characters)
                                  for _ in range(choose.randint(0, 6))) for _ in range(30)]
                self.look_everywhere(self.page_of(tokens), tokens)

    def test_the_policy_forbids(self):
        """What a token would do if it ever became markup: the browser refuses it, and nobody hears of it."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        listener.settimeout(30)
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        self.driver.get("about:blank")  # has no policy
        self.js("fetch('http://' + arguments[0]).catch(() => {})", host)
        listener.accept()[0].close()
        self.wait(lambda: self.driver.get_log("browser"), "the browser does not tell of the failed request")
        self.open()
        for attempt in ["document.body.append(Object.assign(document.createElement('img'), {src: 'http://HOST/i'}))",
                        "document.body.append(Object.assign(document.createElement('link'), {rel: 'stylesheet', href: 'http://HOST/c'}))",
                        "try { new WebSocket('ws://HOST/') } catch {}",
                        "fetch('http://HOST/f').catch(() => {})",
                        "const p = document.createElement('p'); try { p.innerHTML = '<b>x</b>'; window.ran = 1 } catch {}",
                        "const b = document.createElement('b'); try { b.setAttribute('onclick', 'window.ran = 1') } catch {} document.body.append(b); b.click()",
                        "try { setTimeout('window.ran = 1', 0) } catch {}"]:
            self.js(attempt.replace("HOST", host))
        time.sleep(0.3)
        self.assertIsNone(self.js("return window.ran ?? null"))
        refused = " ".join(entry["message"] for entry in self.driver.get_log("browser"))
        for rule in ["img-src", "style-src", "connect-src", "TrustedHTML", "TrustedScript"]:
            self.assertIn(rule, refused)
        listener.setblocking(False)
        self.assertRaises(BlockingIOError, listener.accept)
        # Chromium reports a request before its policy check, so these stand in its log all the same.
        self.assertEqual([a for a in self.requests() if f"//{host}/" not in a], [])


# ------------------------------------------------------------------------------------------------ the program

class Attend(Browser):
    def attend(self, *arguments):
        """The page that the program writes; it prints nothing else."""
        path = self.at / "attend.html"
        done = subprocess.run([HEED, "attend", *arguments, "--html", path], capture_output=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr.decode()), (0, b"", f"wrote {path}\n"))
        return path

    def test_a_translation(self):
        path = self.attend("El perro tiene el pelo suelto.", "--model", MODEL)
        self.open("view=model", path)
        self.assertEqual(self.texts("#groups button"), ["Encoder", "Decoder", "Cross"])
        self.assertEqual(len(self.all(".tile")), 12)
        self.view("steps")
        self.assertEqual(self.texts("#text")[0].split()[0], self.texts("#produced bdi")[0])
        for where in ["view=inside&group=0", "view=inside&group=1&query=2", "view=inside&group=2"]:
            self.open(where, path)
            differ = float(self.one(".inside > .faint").text.split("differ by ")[1].split(" ")[0])
            self.assertLess(differ, 2e-4, where)
        self.open("view=inside&group=1&query=2", path)
        later = [row for row in self.table() if int(row["key"]) > 3]
        self.assertTrue(later)
        self.assertTrue(all(row["allowed"] == "0" and float(row["weight"]) == 0 for row in later))

    def test_textbook_examples(self):
        path = self.attend("--examples")
        self.open("", path)
        self.assertEqual(self.texts("#groups button"), ["Basic self-attention", "Dictionary on a circle", "Causal mask"])
        self.open("view=inside&group=1&query=0", path)  # softmax(q k / sqrt(2)) of PERRO
        for shown, true in zip(self.table(), [0.4274, 0.3820, 0.1906]):
            self.assertAlmostEqual(float(shown["weight"]), true, delta=5e-5)
        self.open("view=inside&group=2&query=4", path)  # as the text that the numbers are from prints them
        for shown, true in zip(self.table(), [0.13352946, 0.05557004, 0.29655043, 0.06418016, 0.45016991]):
            self.assertAlmostEqual(float(shown["weight"]), true, delta=1e-4)
        self.open("view=inside&group=0&query=0", path)
        first = [float(r["weight"]) for r in self.table()]
        self.open("view=inside&group=0&query=4", path)
        self.assertEqual([float(r["weight"]) for r in self.table()], first, "both 'the' look alike")


if __name__ == "__main__":
    browser.main()


if __name__ == "__main__":
    unittest.main()
