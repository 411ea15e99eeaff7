"""Reads HTML pages in tests."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """A page's elements, as (tag, pairs of attributes), and its text. Tags must match."""

    VOID = ("meta", "link", "input", "br", "img", "source")

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        """Return the attributes of each element with a tag."""
        return [dict(attributes) for name, attributes in self.elements if name == tag]
