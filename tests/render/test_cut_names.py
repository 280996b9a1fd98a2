"""Names of any length and of any characters: what is cut, what is left out, and that both ends stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.render.html.names import ends
from whyidle.render.words import clean, kernel_name, legible, middle

ANY = st.text(st.characters(codec=None))


@given(ANY, st.integers(1, 60))
def test_a_name_is_cut_in_its_middle(text: str, width: int) -> None:
    cut = middle(text, width)
    assert len(cut) <= width
    assert cut == text or "…" in cut
    head, _, tail = cut.partition("…") if cut != text else (text, "", text)
    assert text.startswith(head)
    assert text.endswith(tail)


@given(ANY)
def test_what_nobody_sees_goes_and_lines_stay(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert legible(text).count("\n") == text.count("\n")
    clean(text).encode("utf-8")
    legible(text).encode("utf-8")


@pytest.mark.parametrize("name", [f"void f<{'a' * 9000} {'b' * 900}>", f"void f<{'gemm' * 2500}>", "a<" * 5000])
def test_a_kernel_of_ten_thousand_characters_has_a_short_name(name: str) -> None:
    """Each took a second or more while the search for what it works on began at every letter anew."""
    assert len(kernel_name(name)) <= len(name)


def test_paths_are_called_by_as_much_of_their_end_as_tells_them_apart() -> None:
    assert ends(["/runs/a/trace.json", "/runs/b/log.txt"]) == ["trace.json", "log.txt"]
    assert ends(["/runs/a/trace.json", "/runs/b/trace.json"]) == ["a/trace.json", "b/trace.json"]
    assert ends(["C:\\runs\\a", "C:\\runs\\b\\"]) == ["a", "b"]
    assert ends(["/runs/a", "/runs/a"]) == ["a", "a"]
    assert ends(["/a", "/b/a"]) == ["/a", "b/a"]
    assert ends(["trace.json"]) == ["trace.json"]
    assert ends([]) == []
