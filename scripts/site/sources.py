"""Renders pages that show sources: a page of a file has its text, and a page of a folder lists its files."""

from pathlib import Path

from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

LEFT_OUT = ("__pycache__", "lib")  # build outputs
PLAIN = "---\nsearch: {exclude: true}\nhide: [toc]\n---\n\n"


def closure(paths, media):
    """Return these files and folders and the folders' contents, except Markdown pages and binary files."""
    found, waiting = set(), list(paths)
    while waiting:
        path = waiting.pop()
        if path in found or path.suffix == ".md" or path.name in LEFT_OUT:
            continue
        if path.is_dir():
            waiting += inside(path)
            if (path / "README.md").exists():
                continue
        elif path.suffix not in media and not is_text(path):
            continue
        found.add(path)
    return sorted(found)


def inside(folder):
    """Return the entries that a folder's page lists."""
    return sorted(path for path in folder.iterdir() if path.name not in LEFT_OUT and not path.name.startswith("."))


def is_text(path):
    """Return whether a file is text, and can be shown."""
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def page_of(path: Path) -> Path:
    """Return the path of the page that shows a file or a folder."""
    if not path.is_dir():
        return path.with_name(f"{path.name}.md")
    return path / ("README.md" if (path / "README.md").exists() else "index.md")


def content(path, root):
    """Return the page's Markdown."""
    title = f"# {path.relative_to(root).as_posix()}\n\n"
    if path.is_dir():
        shown = [entry for entry in inside(path) if entry.is_dir() or is_text(entry)]
        names = [(f"{entry.name}/" if entry.is_dir() else entry.name) for entry in shown]
        return PLAIN + title + "\n".join(f"- [{entry}]({entry})" for entry in names) + "\n"
    return f"{PLAIN}{title}````{language(path)}\n{path.read_text(encoding='utf-8')}\n````\n"


def language(path):
    """Return Pygments' name of the file's language."""
    try:
        return "cuda" if path.suffix in (".cu", ".cuh") else get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        return "text"
