"""A page as a person without scripts reads it, and what no page of ours may hold."""

from __future__ import annotations

from html.parser import HTMLParser

BLOCKS = frozenset(
    ("h1", "h2", "h3", "p", "li", "tr", "dt", "figcaption", "pre", "section", "table", "caption", "svg", "figure")
)
SILENT = frozenset(("script", "style", "head", "svg", "nav", "footer"))
VOID = frozenset(("meta", "link", "br", "rect", "line", "circle", "polygon", "img", "input"))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines = [""]
        self.silent = 0
        self.ids: list[str] = []
        self.wrong: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if (tag, name, value) == ("link", "href", "data:,"):
                continue  # an empty icon: browsers ask a server for one where a page names none
            if name == "style" or name.startswith("on") or (name in {"src", "href"} and (value or "#")[:1] != "#"):
                self.wrong.append(f"<{tag} {name}={value!r}>")
            if name == "id":
                self.ids.append(value or "")
        if tag in SILENT and tag not in VOID:
            self.silent += 1
        if tag in BLOCKS:
            self.lines.append("## " if tag == "h2" else "# " if tag == "h1" else "- " if tag == "li" else "")
        elif tag in {"td", "th", "dd"} and self.lines[-1]:
            self.lines[-1] += " | "

    def handle_endtag(self, tag: str) -> None:
        if tag in SILENT:
            self.silent -= 1
        if tag in BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.lines[-1] += data


def read(page: str) -> str:
    """Return the words of a page, a line for each paragraph and each row of a table.

    Fails where it holds a style, a handler or an address outside of itself.
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.wrong == []
    assert len(reader.ids) == len(set(reader.ids)), "an id stands twice"
    assert "img" not in reader.tags
    words = (" ".join(line.split()) for line in reader.lines)
    return "\n".join(line for line in words if line not in {"", "-", "#", "##", "Dark", "whyidle", "whyidle Dark"})
