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


# Of Unicode 15.0 and 15.1; the other additions came with 16.
UNICODE_15 = [
    (0xCF3, 0xCF3), (0xECE, 0xECE), (0x2FFC, 0x2FFF), (0x31EF, 0x31EF), (0x10EFD, 0x10EFF), (0x1123F, 0x11241), (0x11B00, 0x11B09),
    (0x11F00, 0x11F59), (0x1342F, 0x1342F), (0x13439, 0x13455), (0x1B132, 0x1B132), (0x1B155, 0x1B155), (0x1D2C0, 0x1D2D3),
    (0x1DF25, 0x1DF2A), (0x1E030, 0x1E06D), (0x1E08F, 0x1E08F), (0x1E4D0, 0x1E4F9), (0x1F6DC, 0x1F6DC), (0x1F774, 0x1F776),
    (0x1F77B, 0x1F77F), (0x1F7D9, 0x1F7D9), (0x1FA75, 0x1FA77), (0x1FA87, 0x1FA88), (0x1FAAD, 0x1FAAF), (0x1FABB, 0x1FABD),
    (0x1FABF, 0x1FABF), (0x1FACE, 0x1FACF), (0x1FADA, 0x1FADB), (0x1FAE8, 0x1FAE8), (0x1FAF7, 0x1FAF8), (0x2B739, 0x2B739),
    (0x2EBF0, 0x2EE5D), (0x31350, 0x323AF),
]


def version(code):
    return 15 if any(first <= code <= last for first, last in UNICODE_15) else 16


def ranges_of(codes):
    ranges = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1 and version(ranges[-1][0]) == version(code):
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
    rows = [f"ADDED(0x{a:x}, 0x{b:x}, {category}, {version(a)})" for category in [*CATEGORIES, "Ha"] for a, b in ranges_of(found[category])]
    write("unicode_additions.def", "ADDED(first, last, category, Unicode version) over Unicode 14", rows)
    codes = late() | set().union(*found.values())
    rows = [f"LATE(0x{a:x}, 0x{b:x})" for a, b in ranges_of(codes)]
    write("unicode_late.def", "LATE(first, last): left alone by Hugging Face's normal forms", rows)


if __name__ == "__main__":
    main()
