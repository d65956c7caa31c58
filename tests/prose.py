#!/usr/bin/env python3
"""prose.py ROOT: words that make pages read as translated (docs and README). Code, links' targets and the tables of
measurements are left out. ALLOWED has what is right, with the reason."""
import pathlib
import re
import sys

PAGES = ("*.md", "docs/*.md", "examples/*.md", "bench/*.md", "recipes/*/*.md")
LEFT_OUT = {"CHANGELOG.md": "history keeps its words"}
WORDS = re.compile(
    r"\b(behind|in front of|go(?:es)? on|gone on|(?:is|are) told|of its own|whoever|nobody|somebody|(?:an)?other makers?"
    r"|likewise|as ever|what it says)\b", re.IGNORECASE)
ALLOWED = {
    # (page, the line's text that may stay): reason
}
NO_PROSE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)]*\)|<!-- table:.*?<!-- end of table -->", re.MULTILINE | re.DOTALL)


def blank(match):
    """Spaces in place of a text, so that lines keep their numbers."""
    return re.sub(r"[^\n]", " ", match.group())


def found(root):
    for pattern in PAGES:
        for page in sorted(root.glob(pattern)):
            name = page.relative_to(root).as_posix()
            if name in LEFT_OUT:
                continue
            text = NO_PROSE.sub(blank, page.read_text(encoding="utf-8"))
            for number, line in enumerate(text.splitlines(), 1):
                for match in WORDS.finditer(line):
                    if not any(name == where and part in line for where, part in ALLOWED):
                        yield f"{name}:{number}: '{match.group()}': say it plainly"


def main(root):
    pages = [page for pattern in PAGES for page in root.glob(pattern)]
    lines = list(found(root))
    print(f"{len(pages)} pages", *lines, sep="\n")
    return 1 if lines or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
