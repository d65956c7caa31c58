#!/usr/bin/env python3
"""Writes, as a C++ header on standard output, what wasm/foreign/utf8proc.cc knows of Unicode: taken from the library
utf8proc of this machine, so that a page sees characters as the program does."""
import ctypes
import ctypes.util

STABLE, COMPOSE, DECOMPOSE = 1 << 1, 1 << 3, 1 << 4
HANGUL = range(0xAC00, 0xD7A4)  # by arithmetic
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]

library = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
library.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_int16)  # category, combining class, ...
for name in ("utf8proc_decompose_char", "utf8proc_normalize_utf32"):
    getattr(library, name).restype = ctypes.c_ssize_t


def decomposed(code):
    codes, boundary = (ctypes.c_int32 * 32)(), ctypes.c_int()
    count = library.utf8proc_decompose_char(code, codes, ctypes.c_ssize_t(32), STABLE | DECOMPOSE, ctypes.byref(boundary))
    return list(codes[:count])


def composed(codes):
    buffer = (ctypes.c_int32 * (len(codes) + 1))(*codes)
    count = library.utf8proc_normalize_utf32(buffer, ctypes.c_ssize_t(len(codes)), STABLE | COMPOSE)
    return list(buffer[:count])


def table(kind, name, rows):
    print(f"constexpr {kind} {name}[] = {{")
    for at in range(0, len(rows), 8):
        print("    " + " ".join("{" + ", ".join(map(str, row)) + "}," for row in rows[at:at + 8]))
    print("};\n")


runs = []
for code in CODES:
    category, combining = library.utf8proc_get_property(code)[:2]
    if not runs or runs[-1][1:] != (category, combining):
        runs.append((code, category, combining))
parts, decompositions, pairs = [], [], []
for code in CODES:
    if code in HANGUL:
        continue
    canonical = decomposed(code)
    if canonical == [code]:
        continue
    decompositions.append((code, len(parts), len(canonical)))
    parts += canonical
    first = composed(canonical[:-1])
    if len(canonical) > 1 and len(first) == 1 and composed([first[0], canonical[-1]]) == [code]:
        pairs.append((first[0], canonical[-1], code))

print("// Made by wasm/unicode_tables.py.\n#pragma once\n\n#include <cstdint>\n")
print("namespace {\n")
print("struct Run {\n  int32_t first;\n  uint8_t category, combining_class;\n};  // up to the next\n"
      "struct Decomposition {\n  int32_t code;\n  uint16_t begin;\n  uint8_t count;\n};\n"
      "struct Pair {\n  int32_t first, second, composed;\n};\n")
table("Run", "kRuns", runs)
table("Decomposition", "kDecompositions", decompositions)
table("Pair", "kPairs", sorted(pairs))
print("constexpr int32_t kParts[] = {")
for at in range(0, len(parts), 16):
    print("    " + " ".join(f"{part}," for part in parts[at:at + 16]))
print("};\n\n}  // namespace")
