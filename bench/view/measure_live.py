#!/usr/bin/env python3
"""How fast a page is that has its model in it, in Chromium: the bundled translator, Spanish to English.

    cmake --preset bench && cmake --build --preset bench --target heed
    scripts/build-wasm && cmake --build build/wasm --target heed_wasm_speed      for the products, by node
    /usr/bin/python3 bench/view/measure_live.py [--build build/bench] [--json FILE] [--quick]
    /usr/bin/python3 bench/view/measure_live.py --table FILE [--page FILE]       the table of an earlier run

Needs Debian's chromium, chromium-driver, python3-selenium, and pairs of sentences, Spanish behind a tab, in HEED_SHARED
(default ../shared). Opening: a fresh load each time, from the start of the navigation to the frame that shows the page, to
the model's being awake, and to the first translation of a text that is typed as soon as it is. Then sentences one after the
other, each when the page rests, as a reader would type them: words a second from the request to the last word that is shown
on the way, and to the frame that has all that the page shows of it.
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parents[2] / "tests/program")]
import browser  # noqa: E402
import turns  # noqa: E402
from turns import ROOT, commit, machine, spread  # noqa: E402

PAIRS = pathlib.Path(os.environ.get("HEED_SHARED", ROOT / "../shared")).resolve() / "data/spa-eng/dev.tsv"
MODEL = ROOT / "models/spa-eng"
FIRST, SECOND = "El perro tiene el pelo suelto.", "La casa tiene una puerta roja."
AIMS = {"bytes": 11e6, "painted": 1.0, "first": 2.5, "words": {"1": 300, "4": 100}, "product": 12}
BEAMS = ("1", "4")


# What a reader does, and when it has its effect.
TYPED = """
    const frame = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
    const rest = async () => {
      await frame();
      await frame();
      await new Promise(requestIdleCallback);
    };
    const typed = document.getElementById('typed'), line = document.getElementById('live-line');
    const read = text => new Promise(resolve => {
      const began = performance.now();
      let searched = began;
      const look = new MutationObserver(() => {
        if (line.textContent.startsWith('writing')) searched = performance.now();
        if (!/ ms$/.test(line.textContent) || document.querySelector('h1').textContent !== text) return;
        look.disconnect();
        frame().then(() => resolve({search: searched - began, whole: performance.now() - began}));
      });
      look.observe(line, {childList: true});
      typed.value = text;
      document.getElementById('live').requestSubmit();
    });"""


def opened(driver, page):
    """Seconds from the start of the navigation."""
    browser.open_page(driver, page)
    browser.wait(lambda: driver.execute_script("return document.documentElement.dataset.alive") == "true")
    return driver.execute_async_script(TYPED + """
        const [text, done] = arguments;
        read(text).then(() => {
          const at = name => performance.getEntriesByName(name)[0].startTime / 1000;
          done({painted: at('painted'), alive: at('alive'), first: performance.now() / 1000});
        });""", SECOND)


def translated(driver, sentences):
    """Words a second: of the search, and until the page shows all of a sentence."""
    return driver.execute_async_script(TYPED + """
        const [sentences, done] = arguments;
        (async () => {
          let words = 0, search = 0, whole = 0;
          for (const text of sentences) {
            await rest();
            const took = await read(text);
            search += took.search;
            whole += took.whole;
            words += document.getElementById('text').textContent.split(' ').length;
          }
          done({search: 1000 * words / search, whole: 1000 * words / whole});
        })();""", sentences)


def products():
    """GFLOP/s by the number of rows, in float32; none where the program is not built."""
    program = ROOT / "build/wasm/heed_wasm_speed.js"
    if not program.exists():
        return {}
    out = subprocess.run(["node", program], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    return {rows: float(rate) for rows, rate in re.findall(r"^ *(\d+) x .*, float: ([0-9.]+) GFLOP/s", out, re.M)}


def run(arguments):
    sentences = [line.split("\t")[1] for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    # Pairs are in the order of their length; what is shown is not read again.
    sentences = list(dict.fromkeys(sentences[::len(sentences) // (30 if arguments.quick else 250)]))
    runs = 3 if arguments.quick else 9
    with tempfile.TemporaryDirectory(prefix="heed-measure-") as folder:
        pages = {beam: pathlib.Path(folder) / f"beam{beam}.html" for beam in BEAMS}
        for beam, page in pages.items():
            subprocess.run([arguments.build / "src/cli/heed", "attend", FIRST, "--model", MODEL, "--beam", beam, "--html", page,
                            "--live"], check=True)
        driver = browser.start(folder + "/profile")
        driver.set_script_timeout(600)
        try:
            opened(driver, pages[BEAMS[0]])  # the first start reads the browser itself from the disk
            openings = [opened(driver, pages[BEAMS[0]]) for _ in range(runs)]
            rates = {beam: [] for beam in BEAMS}
            for _ in range(3):
                for beam, page in pages.items():
                    opened(driver, page)
                    rates[beam].append(translated(driver, sentences))
            version = driver.capabilities["browserVersion"]
        finally:
            driver.quit()
        size = pages[BEAMS[0]].stat().st_size
    return {"date": datetime.date.today().isoformat(), "commit": commit(), **machine(), "chromium": version,
            "load_average": round(os.getloadavg()[0], 1), "bytes": size, "runs": runs, "sentences": len(sentences),
            "seconds": {name: spread([one[name] for one in openings]) for name in ("painted", "alive", "first")},
            "words_per_second": {beam: {how: spread([rate[how] for rate in rates[beam]]) for how in ("search", "whole")}
                                 for beam in BEAMS},
            "gigaflops": products()}


def table(result):
    seconds, words = result["seconds"], result["words_per_second"]

    def row(what, figure, aim=""):
        return f"| {what} | {figure} | {aim} |"

    def span(one, digits):
        return f"{one['median']:.{digits}f} ({one['lower']:.{digits}f}-{one['upper']:.{digits}f})"

    lines = ["| the live page of the bundled model | | aim |", "|---|---|---|",
             row("size, MB", f"{result['bytes'] / 1e6:.2f}", f"{AIMS['bytes'] / 1e6:.0f}"),
             row("painted after, s", span(seconds["painted"], 2), f"{AIMS['painted']:.0f}"),
             row("model awake after, s", span(seconds["alive"], 2)),
             row("first translation after, s", span(seconds["first"], 2), f"{AIMS['first']}")]
    for beam, name in zip(BEAMS, ("greedy", "beam 4")):
        lines.append(row(f"{name}, words/s", span(words[beam]["search"], 0), AIMS["words"][beam]))
        lines.append(row(f"{name}, with every map and number of the page, words/s", span(words[beam]["whole"], 0)))
    for rows, rate in result["gigaflops"].items():
        aim = AIMS["product"] if int(rows) > 1 else ""
        lines.append(row(f"product of {rows} row{'s' if rows != '1' else ''} with 256 x 512, GFLOP/s", f"{rate:.1f}", aim))
    lines += ["", f"{result['processor']}, Chromium {result['chromium'].split('.')[0]}, a single thread; "
                  f"{result['sentences']} sentences; {result['date']}, commit {result['commit']}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    turns.finish(turns.parser(__doc__).parse_args(), "live page", run, table)
