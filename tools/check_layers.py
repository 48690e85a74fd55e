#!/usr/bin/env python3
"""Checks that src/ includes point downwards only, and that no file or folder escapes the table.

A folder may include itself and the folders named in its row (and what those may include). Exit 1 lists each wrong include.
"""
import pathlib
import re
import sys

ALLOWED = {
    "base": [],
    "tensor": ["base"],
    "accl": ["tensor"],
    "ir": ["tensor"],
    "ref": ["ir"],
    "passes": ["ir", "plan"],
    "plan": ["ir"],
    "codegen": ["ir"],
    "kernels": ["tensor"],
    "runtime": ["ref", "passes", "plan", "codegen", "kernels"],
    "formats": ["tensor"],
    "text": ["formats"],
    "model": ["runtime", "formats", "text"],
    "train": ["model"],
    "infer": ["model"],
    "server": ["infer"],
    "cluster": ["base", "accl"],
    "cnp": ["train", "cluster"],
    "host": ["base", "formats"],
    "cli": ["train", "infer", "server", "cluster", "cnp", "host", "accl"],
}


def closure(folder):
    seen, stack = {folder}, [folder]
    while stack:
        for lower in ALLOWED[stack.pop()]:
            if lower not in seen:
                seen.add(lower)
                stack.append(lower)
    return seen


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    wrong = []
    for path in sorted((root / "src").rglob("*.[ch]")) + sorted((root / "src").rglob("*.def")):
        folder = path.relative_to(root / "src").parts[0]
        if folder not in ALLOWED:
            wrong.append(f"{path.relative_to(root)}: folder {folder} has no row in {__file__}")
            continue
        allowed = closure(folder)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
            target = match and match.group(1)
            if target and target not in ("ljperf", "accl") and target not in allowed:
                wrong.append(f"{path.relative_to(root)}:{number}: {folder} may not include {target}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
