#!/usr/bin/env python3
"""Runs what the documentation shows.

    execute.py extract FILE.md DIR             writes each ```cpp block to DIR as a program and prints their paths, each
                                               followed by the libraries that the block says it links
    execute.py run FILE.md DIR [HEED]          runs those programs (built in DIR) and the commands, top to bottom

A ```cpp block begins with a line such as "// links heed::nn", and is linked with exactly that. Without main it is the
body of one. In a ```sh block a line that begins with "$ " is a command; when lines
follow it, they are what it prints ("..." stands for any lines). All of a file runs in one directory, so later blocks
may use the files of earlier ones. A block after "<!-- docs: not run -->" is left alone. Commands that need the bundled
model are skipped, visibly, where it is not there.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
BLOCK = re.compile(r"^(?P<mark><!-- docs: not run -->\n)?```(?P<language>cpp|sh)[^\n]*\n(?P<text>.*?)^```$",
                   re.MULTILINE | re.DOTALL)


def blocks(path):
    """(language, text, name, line) of each block that is run."""
    content = path.read_text(encoding="utf-8")
    for number, match in enumerate(BLOCK.finditer(content), 1):
        if not match["mark"]:
            line = content.count("\n", 0, match.start("text")) + 1
            yield match["language"], match["text"], f"{path.stem}_{number}", line


def libraries(text, path, line):
    """["heed::nn"] of a block that begins with "// links heed::nn"."""
    first = re.match(r"// links (heed::[a-z]+(?: heed::[a-z]+)*)\n", text)
    if not first:
        sys.exit(f"{path}:{line}: the block does not begin with the libraries that it links: // links heed::nn")
    return first[1].split(" ")


def program(text, path, line):
    mark = f'#line {line} "{path.name}"\n'
    if re.search(r"\bint main\(", text):
        return mark + text
    includes = "".join(re.findall(r"^#include[^\n]*\n", text, re.MULTILINE))
    body = re.sub(r"^#include[^\n]*\n", "\n", text, flags=re.MULTILINE)
    return f'#include "heed/heed.h"\n{includes}int main() {{\n{mark}{body}}}\n'


def extract(path, directory):
    directory.mkdir(parents=True, exist_ok=True)
    for language, text, name, line in blocks(path):
        if language == "cpp":
            source = directory / f"{name}.cc"
            content = program(text, path, line)
            if not source.exists() or source.read_text(encoding="utf-8") != content:
                source.write_text(content, encoding="utf-8")
            print(source, *libraries(text, path, line), sep="|")


def commands(text):
    """(command, expected lines) of a shell block."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def matches(expected, printed):
    pattern = "".join(".*" if line.strip() == "..." else re.escape(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def run(path, directory, heed):
    environment = dict(os.environ)
    environment.pop("HEED_MODEL", None)
    if heed:
        environment["PATH"] = f"{heed.parent}:{environment['PATH']}"
    model = pathlib.Path(__file__).resolve().parents[2] / "models/spa-eng/config.json"
    failed = skipped = 0
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "models").symlink_to(model.parents[1])
        for language, text, name, line in blocks(path):
            steps = [(str(directory / name), [])] if language == "cpp" else commands(text)
            for command, expected in steps:
                shown = f"{path.name}:{line}: {name if language == 'cpp' else command}"
                if language == "cpp" and not (directory / name).exists():
                    print(f"skipped, a library that it links is not built: {shown}")
                    skipped += 1
                    continue
                if "models/spa-eng" in text and language == "cpp" and not model.exists():
                    print(f"skipped, models/spa-eng is not here: {shown}")
                    skipped += 1
                    continue
                if "heed " in command and language == "sh":
                    if not heed:
                        print(f"skipped, the program is not built: {shown}")
                        skipped += 1
                        continue
                    if re.search(r"heed (translate|attend|serve)\b(?!.*--model)", command) and not model.exists():
                        print(f"skipped, models/spa-eng is not here: {shown}")
                        skipped += 1
                        continue
                done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=work, env=environment, timeout=300,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)
                good = done.returncode == 0 and (not expected or matches(expected, done.stdout))
                print(f"{'ok' if good else 'FAILED'}: {shown}")
                if not good:
                    failed += 1
                    print(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
                    if expected:
                        print("expected:\n" + "\n".join(expected))
    return 1 if failed else SKIPPED if skipped else 0


if __name__ == "__main__":
    mode, document, place, *rest = (argument if i == 0 else pathlib.Path(argument).resolve()
                                   for i, argument in enumerate(sys.argv[1:]))
    if mode == "extract":
        extract(document, place)
    else:
        sys.exit(run(document, place, rest[0] if rest else None))
