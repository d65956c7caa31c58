#!/usr/bin/env python3
"""links.py ROOT: every relative link of the project's pages leads to a file that is there, and to a heading of it."""
import pathlib
import re
import sys

FOLDERS = ("", "docs/", "docs/decisions/", "bench/", "examples/", "recipes/*/")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)


def anchor(heading):
    """As code hosts make it: lower case, words joined by hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken(page):
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            yield target
        elif heading and heading not in map(anchor, HEADING.findall(CODE.sub("", file.read_text(encoding="utf-8")))):
            yield target


def main(root):
    pages = [page for folder in FOLDERS for page in root.glob(f"{folder}*.md")]
    wrong = [f"{page.relative_to(root)}: {target}" for page in sorted(pages) for target in broken(page)]
    print(f"{len(pages)} pages", *wrong, sep="\n")
    return 1 if wrong or len(pages) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
