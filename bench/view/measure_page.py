#!/usr/bin/env python3
"""How long Chromium takes to show a page of 12 layers x 12 heads x 512 tokens.

    cmake --preset bench && cmake --build --preset bench --target long_page
    /usr/bin/python3 bench/view/measure_page.py build/bench/bench/view/long_page > bench/results/page.json

Needs Debian's chromium, chromium-driver and python3-selenium. `painted` is the time from the start of the navigation to
the frame that follows the one with all maps on it; `main_thread_cpu` the processor time that Chromium's main thread
took for it, which other work on the machine hardly changes. Both in seconds, a fresh load each time. The load average and
the niceness it began with say how quiet the machine was.
"""
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

RUNS = 9


def browser(profile):
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-extensions", "--disable-background-networking", "--window-size=1360,900",
                 f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def shown(driver, page):
    """Seconds until the page is painted, and of processor time of the main thread."""
    driver.get("about:blank")
    driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    driver.get(f"file://{page}#view=model")  # every map
    mark = "const [m] = performance.getEntriesByName('painted'); return m ? m.startTime / 1000 : null"
    while (painted := driver.execute_script(mark)) is None:
        time.sleep(0.05)
    metrics = {m["name"]: m["value"] for m in driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
    driver.execute_cdp_cmd("Performance.disable", {})
    return painted, metrics["TaskDuration"]


def quartiles(values):
    lower, median, upper = statistics.quantiles(values, n=4)
    return {"median": round(median, 3), "lower": round(lower, 3), "upper": round(upper, 3), "least": round(min(values), 3)}


def main(maker):
    niceness = os.nice(0)  # before Chromium changes its own
    with tempfile.TemporaryDirectory(prefix="heed-measure-") as folder:
        page = pathlib.Path(folder) / "page.html"
        subprocess.run([maker, page, "12", "12", "512"], check=True)
        driver = browser(folder + "/profile")
        try:
            shown(driver, page)  # the first start reads the browser itself from the disk
            runs = [shown(driver, page) for _ in range(RUNS)]
            version = driver.capabilities["browserVersion"]
        finally:
            driver.quit()
        processor = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="ascii")
                         if line.startswith("model name"))
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False,
                                cwd=pathlib.Path(__file__).parent).stdout.strip()
        print(json.dumps({"date": str(datetime.date.today()), "commit": commit, "processor": processor,
                          "cpus": os.cpu_count(), "chromium": version, "load_average": round(os.getloadavg()[0], 1),
                          "niceness": niceness,
                          "layers": 12, "heads": 12, "tokens": 512, "bytes": page.stat().st_size, "runs": RUNS,
                          "painted": quartiles([painted for painted, _ in runs]),
                          "main_thread_cpu": quartiles([cpu for _, cpu in runs])}, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
