"""Reads a page as a browser would: what elements and attributes there are, and whether they fit together."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements that have no end, and those of SVG that end themselves.
VOID = {"meta", "br", "hr", "img", "input", "link", "col", "wbr"}
# What may not stand within a paragraph: a browser would end the paragraph before it.
BLOCKS = {
    "p",
    "div",
    "dl",
    "ul",
    "ol",
    "table",
    "pre",
    "section",
    "article",
    "details",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
}


@dataclass
class Page(HTMLParser):
    """A page, taken apart; `faults` says what does not fit together."""

    text: str
    faults: list[str] = field(default_factory=list)
    elements: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    heads: list[tuple[str, str]] = field(default_factory=list)  # what <link> elements name: relation and address
    comments: list[str] = field(default_factory=list)
    scripts: dict[str, str] = field(default_factory=dict)  # by id; "" the one that runs
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()
        self.faults += [f"<{name}> is not closed" for name in self.open]
        self.faults += [f"two elements are called {name}" for name in {*self.ids} if self.ids.count(name) > 1]

    @property
    def read(self) -> str:
        """Return what a person reads, without the spaces between."""
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS and "p" in self.open:
            self.faults.append(f"<{tag}> in a paragraph")
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts[dict(attrs).get("id") or ""] = ""
            self.script = dict(attrs).get("id") or ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self.script] += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        names = [name for name, _ in attrs]
        self.attributes.update(names)
        if len(names) != len(set(names)):
            self.faults.append(f"<{tag}> has an attribute twice")
        told = dict(attrs)
        if told.get("id"):
            self.ids.append(told["id"] or "")
        if tag == "link":
            self.heads.append((told.get("rel") or "", told.get("href") or ""))
        elif "href" in told:
            self.links.append(told["href"] or "")
