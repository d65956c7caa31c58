"""Notebooks as users run them: by a kernel, and in JupyterLab in Debian's Chromium, which serves on 127.0.0.1 alone."""
import base64
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import time

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("jupyterlab")

ROOT = pathlib.Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
PICTURED = "5_attention_as_translation"  # in docs/python.md
sys.path.insert(0, str(ROOT / "tests/program"))
import browser  # noqa: E402  (what the tests of pages drive, too)

needs_browser = pytest.mark.skipif(browser.MISSING is not None, reason=str(browser.MISSING))


@pytest.fixture(autouse=True)
def nothing_at_home(tmp_path, monkeypatch):
    """Jupyter keeps its files here; its kernels are those of this interpreter."""
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
                 "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    quiet = tmp_path / "JUPYTERLAB_SETTINGS_DIR/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}), encoding="utf-8")


# ---- By a kernel

@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_kernel_runs_the_notebook(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(path.parent)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    [shown] = code[-1].outputs
    assert shown.data["text/html"].startswith('<iframe srcdoc="') and shown.data["text/plain"].strip()
    assert not [out for cell in code for out in cell.outputs if out.get("name") == "stderr"]


# ---- In JupyterLab

class Lab:
    """JupyterLab on a folder, with a token that nobody else knows."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.origin = f"127.0.0.1:{free.getsockname()[1]}"
        self.token = secrets.token_hex(16)
        options = {"ServerApp.ip": "127.0.0.1", "ServerApp.port": self.origin.partition(":")[2],
                   "ServerApp.port_retries": "0", "IdentityProvider.token": self.token, "ServerApp.root_dir": folder,
                   "ServerApp.open_browser": "False", "ServerApp.allow_root": "True",
                   "LabApp.expose_app_in_browser": "True", "LabApp.extension_manager": "readonly",
                   "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate", "LabApp.news_url": "None"}
        self.log = open(folder.parent / "lab.log", "w+", encoding="utf-8")
        arguments = [f"--{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen([sys.executable, "-m", "jupyterlab", *arguments], stdout=self.log,
                                        stderr=subprocess.STDOUT, cwd=folder)
        end = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(self.address(), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        raise AssertionError((folder.parent / "lab.log").read_text(encoding="utf-8"))

    def address(self):
        host, _, port = self.origin.partition(":")
        return host, int(port)

    def url(self, notebook):
        return f"http://{self.origin}/lab/tree/{notebook}?token={self.token}&reset"

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    server = Lab(folder)
    yield server, folder
    server.stop()


@pytest.fixture
def driver(tmp_path):
    driver = browser.start(tmp_path / "profile")
    (tmp_path / "downloads").mkdir()
    driver.execute_cdp_cmd("Browser.setDownloadBehavior",
                           {"behavior": "allow", "downloadPath": str(tmp_path / "downloads")})
    browser.set_screen(driver, 1300, 900, reduced=True)
    yield driver
    driver.quit()


def find(driver, selector):
    return driver.find_elements(browser.By.CSS_SELECTOR, selector)


def open_notebook(driver, url):
    driver.get(url)
    ready = """const panel = window.jupyterapp?.shell.currentWidget, kernel = panel?.sessionContext?.session?.kernel;
               return kernel?.status === 'idle' && panel.context.isReady"""
    browser.wait(lambda: driver.execute_script(ready), "no notebook with a kernel is open")


def run_all(driver, url):
    open_notebook(driver, url)
    driver.execute_async_script("const done = arguments[0];"
                                "window.jupyterapp.commands.execute('notebook:run-all-cells').then(done, done)")


def frames(driver, count):
    found = lambda: find(driver, ".jp-OutputArea-output iframe")
    browser.wait(lambda: len(found()) == count, f"there are not {count} frames")
    return found()


def into(driver, frame):
    driver.switch_to.default_content()
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    driver.switch_to.frame(frame)
    browser.wait(lambda: driver.execute_script("return document.documentElement.dataset.ready") == "true",
                 "the page is not ready")


def texts(driver, selector):
    return [element.text for element in find(driver, selector)]


def complaints(driver):
    messages = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    return [m for m in messages if "ms to activate" not in m]  # JupyterLab's, on a busy machine


def hosts(driver):
    """Of whatever was asked for."""
    asked = set()
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            url = message["params"].get("request", message["params"])["url"]
            if url.startswith(("http", "ws")):
                asked.add(url.partition("://")[2].partition("/")[0])
    return asked


CELLS = [
    """import heed, numpy as np
words = "El perro tiene el pelo suelto".split()
q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 6, 16))
k, v = k[:, :2], v[:, :2]  # each for two heads of q
r = heed.attention(q, k, v, causal=True, return_weights=True)
heed.AttentionMap(r.weights, queries=words, keys=words, title="two layers", vectors=(q, k, v),
                  mask=np.tri(6, dtype=bool))""",
    """heed.AttentionMap(r.weights[0, 0], queries=words, keys=words, title="one head")""",
]

def notebook_of(sources):
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources],
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}})


@needs_browser
def test_two_maps_in_one_notebook(lab, driver, tmp_path):
    server, folder = lab
    nbformat.write(notebook_of(CELLS), folder / "two.ipynb")
    run_all(driver, server.url("two.ipynb"))
    several, one = frames(driver, 2)

    into(driver, several)
    assert texts(driver, "h1") == ["two layers"] and "looks at" in texts(driver, "#story-sentence")[0]
    find(driver, "#views [data-value=model]")[0].click()
    browser.wait(lambda: len(find(driver, ".tile")) == 8, "the heads are not shown")
    find(driver, '.tile[data-head="2"]')[0].click()
    browser.wait(lambda: "layer 1, head 3" in texts(driver, ".detail")[0], "the head is not chosen")
    find(driver, "#views [data-value=head]")[0].click()
    browser.wait(lambda: find(driver, "#tokens-query"), "no lines")
    find(driver, "#views [data-value=inside]")[0].click()
    browser.wait(lambda: find(driver, ".inside > .faint"), "no computation")
    differ = find(driver, ".inside > .faint")[0].text  # what the page computes from q, k and v, and the weights
    assert float(differ.partition("differ by ")[2].partition(" ")[0]) < 1e-4

    into(driver, one)
    assert texts(driver, "h1") == ["one head"]
    assert find(driver, "#views [data-value=story]")[0].get_attribute("aria-selected") == "true"
    find(driver, "#foot [data-value=CSV]")[0].click()
    saved = lambda: [path for path in (tmp_path / "downloads").glob("*.csv") if path.stat().st_size]
    browser.wait(lambda: len(saved()) == 1, "nothing was saved")
    assert "perro" in saved()[0].read_text(encoding="utf-8")

    # The frame reaches neither the notebook nor a network.
    for script in ("parent.document", "parent.jupyterapp", "localStorage", "top.location.href"):
        attempt = f"try {{ return String({script}) }} catch (error) {{ return error.name }}"
        assert driver.execute_script(attempt) == "SecurityError", script
    reached = driver.execute_async_script(
        "const done = arguments[1]; fetch(arguments[0]).then(() => done(true), () => done(false))",
        f"http://{server.origin}/api?token={server.token}")
    assert reached is False
    assert [text for text in complaints(driver) if "Content Security Policy" not in text] == []
    assert hosts(driver) == {server.origin}


@needs_browser
def test_somebody_elses_notebook(lab, driver):
    """Until the reader trusts it JupyterLab shows no page, and the frame says so."""
    server, folder = lab
    notebook = notebook_of(CELLS)
    nbclient.NotebookClient(notebook, kernel_name="python3").execute()
    nbformat.write(notebook, folder / "theirs.ipynb")
    open_notebook(driver, server.url("theirs.ipynb"))
    browser.wait(lambda: texts(driver, ".jp-OutputArea-output") ==
                 ["Trust this notebook to see its maps of attention."] * 2, "the outputs are others")
    assert find(driver, ".jp-OutputArea-output iframe") == []
    driver.execute_script("window.jupyterapp.commands.execute('notebook:trust')")
    browser.wait(lambda: find(driver, ".jp-Dialog .jp-mod-warn"), "nobody asks")
    find(driver, ".jp-Dialog .jp-mod-warn")[0].click()
    for frame in frames(driver, 2):
        into(driver, frame)


@needs_browser
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_the_notebook_ends_with(path, lab, driver):
    server, folder = lab
    (folder / "examples").mkdir()
    shutil.copytree(path.parent, folder / "examples/notebooks", ignore=shutil.ignore_patterns(".*"))
    (folder / "models").symlink_to(ROOT / "models")
    run_all(driver, server.url(f"examples/notebooks/{path.name}"))
    [frame] = frames(driver, 1)
    into(driver, frame)
    assert texts(driver, "h1") != [""] and find(driver, "#view svg, #view canvas")
    assert complaints(driver) == []
    driver.switch_to.default_content()
    assert not find(driver, ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']")
    if path.stem == PICTURED and "HEED_PICTURE" in os.environ:
        take_picture(driver, frame, pathlib.Path(os.environ["HEED_PICTURE"]))


def take_picture(driver, frame, to):
    """For docs/images/: one head of the last layer, and the word that a word looks at."""
    browser.set_screen(driver, 1100, 940, reduced=True)
    driver.execute_script("""const shell = window.jupyterapp.shell;
                             shell.collapseLeft();
                             shell.mode = 'single-document'""")
    into(driver, frame)
    find(driver, "#views [data-value=head]")[0].click()
    browser.wait(lambda: find(driver, "#view [data-head='7']"), "there are no heads")
    find(driver, "#view [data-head='7']")[0].click()
    browser.wait(lambda: "layer 2, head 4" in texts(driver, "#view .chosen")[0], "the head is not chosen")
    find(driver, "#tokens-query [data-token='1']")[0].click()
    driver.switch_to.default_content()
    time.sleep(1)  # what is drawn in the next frames
    to.write_bytes(base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]))
