#!/usr/bin/env python3
"""Writes two tables of how Hugging Face's tokenizers library differs from the libraries used here; asks that library itself.

src/text/unicode_additions.def: the characters that its expressions know (Unicode 16) and PCRE2 10.42 (Unicode 14) does not, by category.
src/text/unicode_late.def: the characters that its normal forms do not know (their tables are older than Unicode 9) and utf8proc does.
Python's own unicodedata must be of version 14 (Python 3.11).
"""
import pathlib
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs".split()


def ranges_of(codes):
    ranges = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges


def additions():
    everything = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    found = {}
    for category in CATEGORIES:
        split = pre_tokenizers.Split(Regex("\\p{%s}" % category), "removed", invert=True)
        codes = {ord(c) for piece, _ in split.pre_tokenize_str(everything) for c in piece}
        found[category] = {c for c in codes if unicodedata.category(chr(c)) == "Cn"}
    split = pre_tokenizers.Split(Regex("\\p{Han}"), "removed", invert=True)
    codes = {ord(c) for piece, _ in split.pre_tokenize_str(everything) for c in piece}
    found["Ha"] = {c for c in codes if unicodedata.category(chr(c)) == "Cn"}  # the script Han
    return found


def late():
    """What the library's normal forms leave alone although Unicode 14 decomposes, composes or reorders it."""
    nfd, nfkd, nfc = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC()
    codes = set()
    for code in range(0x80, 0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        char = chr(code)
        if unicodedata.normalize("NFKD", char) != nfkd.normalize_str(char):
            codes.add(code)
        if unicodedata.combining(char):
            probes = [char + "\u0334", "\u0301" + char, "\u0345" + char, char + "\u0323"]
            if any(unicodedata.normalize("NFD", p) != nfd.normalize_str(p) for p in probes):
                codes.add(code)
        pair = unicodedata.decomposition(char).split()
        if len(pair) == 2 and not pair[0].startswith("<") and unicodedata.normalize("NFC", char) == char:
            first, second = (chr(int(p, 16)) for p in pair)
            if nfc.normalize_str(first + second) != char:
                codes |= {code, ord(second)} if unicodedata.combining(second) == 0 or ord(second) in codes else {code}
    return codes


def write(name, title, rows):
    path = pathlib.Path(__file__).resolve().parent.parent / "src/text" / name
    path.write_text("\n".join([f"/* Made by tools/unicode_additions.py: {title}. */", *rows]) + "\n")


def main():
    if not unicodedata.unidata_version.startswith("14."):
        sys.exit(f"needs a Python whose unicodedata is 14.0, not {unicodedata.unidata_version}")
    found = additions()
    rows = [f"ADDED(0x{a:x}, 0x{b:x}, {category})" for category in [*CATEGORIES, "Ha"] for a, b in ranges_of(found[category])]
    write("unicode_additions.def", "ADDED(first, last, category) of Unicode 16 over Unicode 14", rows)
    codes = late() | set().union(*found.values())
    rows = [f"LATE(0x{a:x}, 0x{b:x})" for a, b in ranges_of(codes)]
    write("unicode_late.def", "LATE(first, last): left alone by Hugging Face's normal forms", rows)


if __name__ == "__main__":
    main()
