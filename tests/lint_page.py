"""Debian's eslint on the scripts of pages: lint_page.py CONFIGURATION SCRIPT... [-- SCRIPT...]

Scripts of one page share a scope. What one page leaves unused of a script another may use. Status 77 where eslint is not
installed.
"""
import json
import os
import shutil
import subprocess
import sys


def findings(eslint, configuration, scripts):
    """{(script, line, column): what eslint says}"""
    places, lines = [], []  # of each line
    for script in scripts:
        with open(script, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                places.append((script, number))
                lines.append(line)
    # Debian's modules are where a node from elsewhere does not look.
    done = subprocess.run([eslint, "--no-eslintrc", "--config", configuration, "--format", "json", "--stdin"],
                          input="".join(lines), stdout=subprocess.PIPE, check=False, encoding="utf-8",
                          env={**os.environ, "NODE_PATH": "/usr/share/nodejs"})
    if done.returncode not in (0, 1):
        sys.exit(f"eslint ended with status {done.returncode}")
    return {(*places[found["line"] - 1], found["column"]): found for found in json.loads(done.stdout)[0]["messages"]}


def main(configuration, *scripts):
    eslint = shutil.which("eslint")
    if not eslint:
        print("skipped: eslint is not installed, and the pages' scripts were not linted", file=sys.stderr)
        sys.exit(77)
    pages = [page.split() for page in " ".join(scripts).split(" -- ")]
    found = [findings(eslint, configuration, page) for page in pages]
    faults = 0
    for place, fault in sorted({place: fault for one in found for place, fault in one.items()}.items()):
        having = [one for page, one in zip(pages, found) if place[0] in page]
        if fault["ruleId"] == "no-unused-vars" and not all(place in one for one in having):
            continue
        faults += 1
        print(f"{place[0]}:{place[1]}:{place[2]}: {fault['message']} [{fault['ruleId']}]")
    sys.exit(faults > 0)


main(*sys.argv[1:])
