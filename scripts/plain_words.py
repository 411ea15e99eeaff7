#!/usr/bin/env python3
"""Finds turns of phrase that readers stumble over in pages, help texts and messages, and names a plain form for each.

The tracked Markdown and HTML pages are checked, and every string of the package: docstrings, help texts, messages. For
each turn that is found, one line is printed. If there is any, the exit code is 1.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

TURNS = {  # regular expression, case ignored: advice with a plain form
    r"\bone's own\b": "your own; custom",
    r"\bof (?:a|the) user's own\b": "your own; custom",
    r"\bas (?:it|they) (?:lies|lie)\b": "unchanged; unmodified",
    r"\bwhoever\b": "anyone who; users who",
    r"\bwhose word\b": "whose message",
    r"\bhand(?:s|ed|ing)? (?:in|over)\b": "submit; pass",
    r"\b(?:is|are|was|were) (?:met|told)\b(?! apart)": "encountered; reported",
    r"\banew\b": "again",
    r"\bonce more\b": "again",
    r"\bfor ever\b": "forever; without end",
    r"\bseldom\b": "rarely",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bto be had\b": "available",
    r"\bleads? nowhere\b": "broken; does not exist",
    r"\bat the (?:most|least)\b": "at most; at least",
    r"\bbut for\b": "except for",
    r"\bsave for\b": "except for",
    r"\bdear(?:er|est)?\b": "expensive",
    r"\b(?:whence|thereof|therein|hitherto|thereby|lest)\b": "a plainer word",
    r"\bknows? nothing of\b": "does not know",
    r"\bnames? rightly\b": "classify correctly",
    r"\bnever heard of\b": "was not written for",
    r"\b(?:one|a) (?:thread|block|warp|lane|process|file|line|row|table) an? [a-z]+": "one ... per ...",
    r"(?<=[a-z,] )multiprocessors?\b": "SM",
    r"\bcopy engine\b": "TMA",
}
_PATTERN = re.compile("|".join(f"(?P<t{i}>{pattern})" for i, pattern in enumerate(TURNS)), re.IGNORECASE)
_GENERATED = re.compile(r"docs/(?:results|kernels).*\.md|CHANGELOG\.md")  # generated pages, and past versions


def found(text: str):
    """Return pairs (line, advice) for each turn of phrase in a text."""
    plain = list(TURNS.values())
    for match in _PATTERN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield line, f'"{match.group()}": write "{plain[int(match.lastgroup[1:])]}"'


def strings(source: str):
    """Return pairs (first line, text) of a module's strings, including the literal parts of f-strings."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def check(path: Path):
    """Return pairs (line, advice) for a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from found(text)
        return
    for first, string in strings(text):
        for line, advice in found(string):
            yield first + line - 1, advice


def main() -> int:
    """Check the tracked files, and return the exit code."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "fashion_infer/*.html", "fashion_infer/*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    count = 0
    for name in listed.stdout.split():
        if not _GENERATED.fullmatch(name):
            for line, advice in check(ROOT / name):
                print(f"{name}:{line}: {advice}")
                count += 1
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
