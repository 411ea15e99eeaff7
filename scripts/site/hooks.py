"""Hooks of MkDocs: the site shows the repository's pages at their own paths, linked sources, and the reference.

A page links to a source as on GitHub: `[naive.cpp](../custom_ops/conv/cpu/naive.cpp)`. On the site the link leads to a
page with that file's text, so that the site is complete without GitHub and without a network.
"""

import functools
import re
from pathlib import Path, PurePosixPath

import reference
import sources
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
FIRST = ("README.md", "docs/**/*.md", "custom_ops/**/*.md", "models/*.md")  # and every page that these pages link to
MEDIA = (".svg", ".png", ".json", ".ipynb")
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def on_config(config):
    """Append the pages that the navigation does not name to its end."""
    named = set(re.findall(r"[\w/-]+\.md", str(config.nav)))
    more = [name(path) for path in sorted((ROOT / "docs").glob("*.md")) if name(path) not in named]
    if more:
        config.nav.append({"More": more})
    return config


def on_files(files, config):
    """Collect every page of the repository, the sources that pages link to, and the generated pages, beyond docs/."""
    kept = Files([file for file in files if file.src_dir != config.docs_dir])
    linked = set()
    for path in pages():
        kept.append(File.generated(config, name(path), abs_src_path=str(path)))
        linked |= {target for target in targets(path) if target not in pages()}
    for path in (ROOT / "docs" / "assets").iterdir():
        kept.append(File.generated(config, name(path), abs_src_path=str(path)))
    for path in sources.closure(linked, MEDIA):
        if path.suffix in MEDIA:
            kept.append(File.generated(config, name(path), abs_src_path=str(path)))
        else:
            uri, content = name(sources.page_of(path)), sources.content(path, ROOT)
            kept.append(File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV))
    for uri, content in reference.generated(ROOT).items():
        kept.append(File.generated(config, uri, content=content))
    return kept


def on_page_markdown(markdown, page, config, files):
    """Replace links to sources by links to the pages that show these sources."""
    folder = (ROOT / page.file.src_uri).parent

    def replaced(match):
        path = (folder / match.group(1)).resolve()
        if not path.exists() or path.suffix in (*MEDIA, ".md") or ROOT not in path.parents:
            return match.group(1)
        target = PurePosixPath(match.group(1))
        return str(target / sources.page_of(path).name if path.is_dir() else target.with_name(f"{target.name}.md"))

    if page.file.src_uri.startswith("docs/results-"):  # a page without sections has its tables directly below its title
        first, section, rest = markdown.partition("\n## ")
        markdown = first.replace("\n### ", "\n## ") + section + rest
    return LINK.sub(replaced, markdown)


def on_page_content(html, page, config, files):
    """Prevent line breaks after hyphens within code, and leave empty corners of tables without a heading.

    A browser breaks a line after any hyphen, as in "--kernel", which fits on a phone.
    """

    def kept_whole(code):
        return re.sub(
            r"(?<![^\s<>])(?=[^\s<>]{1,30}(?:[\s<>]|$))[^\s<>]*-[^\s<>]*",
            r'<span class="whole">\g<0></span>',
            code.group(),
        )

    html = html.replace("<th></th>", "<td></td>")  # an empty corner cell is not the heading of a column
    return re.sub(r"(?<=<code>)[^<]*(?=</code>)", kept_whole, html)


def on_post_page(output, page, config):
    """Give the theme's dialog a name for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')


def name(path):
    """Return the path that a file has on the site."""
    return path.relative_to(ROOT).as_posix()


@functools.lru_cache(maxsize=None)
def pages():
    """Return the Markdown pages of the repository, ordered by path."""
    found = set()
    waiting = [path for pattern in FIRST for path in ROOT.glob(pattern)]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            waiting += [path for path in targets(page) if path.suffix == ".md"]
    return sorted(found)


def targets(page):
    """Return the files and folders that a page links to."""
    found = {(page.parent / target).resolve() for target in LINK.findall(page.read_text(encoding="utf-8"))}
    return {path for path in found if path.exists() and ROOT in path.parents}
