"""Renders a C header as a page: its sections, and each declaration with the comment above it."""

import re

NAME = re.compile(r"(?<![`\w/])\*?[\w/]*\w_\w*(?:[./]\w+)*(?:\(\)|[/*])?")
SECTION = re.compile(r"^/\* -{2,} (?P<title>.*?) -* \*/$")


def page(path, title):
    """Return the page's Markdown: the header's first comment, then a heading for each section and each declaration."""
    head, *blocks = blocks_of(path.read_text(encoding="utf-8"))
    lines = [f"# {title}", f"From [{path.name}](../custom_ops/include/{path.name}).", text(comment(head)[0])]
    for block in blocks:
        section = SECTION.match(block)
        if section:
            lines.append(f"## {section.group('title').capitalize()}")
            continue
        said, code = comment(block)
        names = declared(code)
        if names:
            lines += [] if any(line.startswith("## ") for line in lines) else ["## Declarations"]
            lines += ["### " + ", ".join(f"`{name}`" for name in names), text(said), f"```c\n{code.strip()}\n```"]
    return "\n\n".join(filter(None, lines)) + "\n"


def blocks_of(source):
    """Split the header at blank lines, and where a comment starts after a declaration."""
    pieces = [""]
    depth, within = 0, False
    for line in source.splitlines():
        begins = not within and not depth and line.startswith("/*")
        if (not line.strip() and not depth and not within) or (begins and pieces[-1].strip()) or SECTION.match(line):
            pieces.append("")
        pieces[-1] += line + "\n"
        within = "*/" not in line if begins else within and "*/" not in line
        depth += 0 if within or begins else line.count("{") - line.count("}") - 2 * line.startswith('extern "C"')
        depth = max(depth, 0)
        if SECTION.match(line):
            pieces.append("")
    return [piece.strip("\n") for piece in pieces if piece.strip()]


def comment(block):
    """Split off the comment at the start of a block; return (text of the comment, rest of the block)."""
    match = re.match(r"/\*(.*?)\*/\s*", block, re.DOTALL)
    if not match:
        return "", block
    words = "\n".join(re.sub(r"^ \* ?", "", line) for line in match.group(1).splitlines())
    return words.strip(), block[match.end() :]


def declared(code):
    """Return the names that a piece of C declares: functions, types, constants."""
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
    functions = re.findall(r"\b(fops_\w+)\(", code)
    types = re.findall(
        r"^typedef struct (\w+) \w+;|^\}\s*(\w+);|^typedef enum \{[^}]*\} (\w+);|^struct (\w+) \{", code, re.M
    )
    constants = re.findall(r"^#define (FOPS_\w+)[ (]+\S", code, re.MULTILINE)
    found = [*constants, *(name for names in types for name in names if name), *functions]
    return list(dict.fromkeys(name for name in found if name != "FOPS_API"))


def text(words):
    """Return a comment as Markdown: names of the API as code, underscores and stars escaped."""
    paragraphs = re.split(r"\n\s*\n", words)
    return "\n\n".join(paragraph if paragraph.startswith("    ") else mark(paragraph) for paragraph in paragraphs)


def mark(paragraph):
    """Return a paragraph with its C names as code."""
    return NAME.sub(lambda found: f"`{found.group()}`", paragraph)
