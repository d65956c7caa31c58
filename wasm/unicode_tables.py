#!/usr/bin/env python3
"""Writes, as a C++ header on standard output, what wasm/foreign/utf8proc.cc knows of Unicode: taken from the library
utf8proc of this machine, so that a page sees characters as the program does.

Numbers are differences, seven bits a byte: so the tables are a third of the size in a page, which has them compressed.
"""
import ctypes
import ctypes.util

STABLE, COMPAT, COMPOSE, DECOMPOSE = 1 << 1, 1 << 2, 1 << 3, 1 << 4
HANGUL = range(0xAC00, 0xD7A4)  # by arithmetic
CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]


class Property(ctypes.Structure):
    _fields_ = ([(name, ctypes.c_int16) for name in ("category", "combining_class", "bidi_class", "decomp_type")] +
                [(name, ctypes.c_uint16) for name in ("decomposition", "folded", "upper", "lower", "title", "pairs")] +
                [(name, ctypes.c_uint32, bits) for name, bits in (("flags", 4), ("width", 2), ("pad", 2), ("bound", 8))])


library = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
library.utf8proc_get_property.restype = ctypes.POINTER(Property)
for function in ("utf8proc_decompose_char", "utf8proc_normalize_utf32"):
    getattr(library, function).restype = ctypes.c_ssize_t


def decomposed(code, options=0):
    codes, boundary = (ctypes.c_int32 * 32)(), ctypes.c_int()
    count = library.utf8proc_decompose_char(code, codes, ctypes.c_ssize_t(32), STABLE | DECOMPOSE | options,
                                            ctypes.byref(boundary))
    return list(codes[:count])


def composed(codes):
    buffer = (ctypes.c_int32 * (len(codes) + 1))(*codes)
    count = library.utf8proc_normalize_utf32(buffer, ctypes.c_ssize_t(len(codes)), STABLE | COMPOSE)
    return list(buffer[:count])


def composes(canonical, code):
    first = composed(canonical[:-1])
    return len(canonical) > 1 and len(first) == 1 and composed([first[0], canonical[-1]]) == [code]


def table(name, columns):
    """Columns one behind the other, as unpacked() of utf8proc.cc reads them; the number of rows comes first."""
    numbers = [len(columns[0])] + [number for column in columns for number in column]
    packed = []
    for number in numbers:
        while number >= 128:
            packed.append(number & 127 | 128)
            number >>= 7
        packed.append(number)
    print(f"constexpr uint8_t {name}[] = {{")
    for at in range(0, len(packed), 24):
        print("    " + " ".join(f"{byte}," for byte in packed[at:at + 24]))
    print("};\n")


def differences(numbers):
    return [now - before for before, now in zip([0] + numbers, numbers)]


def signed_differences(numbers):
    return [2 * step if step >= 0 else -2 * step - 1 for step in differences(numbers)]


runs = []  # first code, category, combining class, class for grapheme clusters: up to the next
for code in CODES:
    of_code = library.utf8proc_get_property(code).contents
    properties = (of_code.category, of_code.combining_class, of_code.bound)
    if not runs or runs[-1][1:] != properties:
        runs.append((code, *properties))

lower = []  # first and last code, step, and how far away lower case is
for code in CODES:
    away = library.utf8proc_tolower(code) - code
    if away == 0:
        continue
    if lower and lower[-1][3] == away and code - lower[-1][1] in ((1, 2) if lower[-1][2] == 0 else (lower[-1][2],)):
        lower[-1][1:3] = [code, code - lower[-1][1]]
    else:
        lower.append([code, code, 0, away])

print("// Made by wasm/unicode_tables.py.\n#pragma once\n\n#include <cstdint>\n\nnamespace {\n")
first, *others = zip(*runs)
table("kRuns", [differences(list(first)), *others])
first, last, step, away = zip(*lower)
table("kLower", [differences(list(first)), [b - a for a, b in zip(first, last)], step, signed_differences(list(away))])
canonical = {code: decomposed(code) for code in CODES if code not in HANGUL}
compatible = {code: decomposed(code, COMPAT) for code in canonical}
for name, decompositions, others in (("kCanonical", canonical, {}), ("kCompatible", compatible, canonical)):
    chosen = {code: parts for code, parts in decompositions.items() if parts != others.get(code, [code])}
    parts = [part for of_one in chosen.values() for part in of_one]
    # Twice their number, and 1 where they become the character again.
    counts = [2 * len(of_one) + (not others and composes(of_one, code)) for code, of_one in chosen.items()]
    table(name, [differences(list(chosen)), counts, signed_differences(parts)])
print("}  // namespace")
