"""What is asked of a batch and of a sampler: nothing that would make them do something."""

from __future__ import annotations

import sys
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.capture import injecting

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def capture() -> Iterator[Any]:
    """The modules under test, in this process, hooked to nothing."""
    sys.path.insert(0, str(injecting.CAPTURE))
    from _whyidle import loader, settings

    yield loader, settings
    sys.path.remove(str(injecting.CAPTURE))


class Lazy(Mapping):  # type: ignore[type-arg]
    """Makes its values when it is asked for them."""

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("made for nobody")

    def __iter__(self) -> Iterator[str]:
        return iter(["x"])

    def __len__(self) -> int:
        return 1


class LazyDict(dict):  # type: ignore[type-arg]
    """The same, of another make."""

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("made for nobody")

    values = get = __getitem__  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict, lambda given: defaultdict(list, given)])
def test_mappings_that_hold_their_values_tell_their_size(capture: Any, kind: Any) -> None:
    batch = kind({"input_ids": torch.zeros(4, 7, dtype=torch.int64)})
    assert capture[0].size_of(batch) == 4 << 32 | 28
    assert list(batch) == ["input_ids"]


@pytest.mark.parametrize("batch", [Lazy(), LazyDict(x=None), LazyDict()])
def test_mappings_that_make_their_values_are_not_asked(capture: Any, batch: Any) -> None:
    assert capture[0].size_of(batch) == 0


def test_a_sampler_of_the_users_is_not_asked_for_its_length(capture: Any) -> None:
    class Buckets:
        def __iter__(self) -> Iterator[list[int]]:
            yield [0]

        def __len__(self) -> int:
            raise AssertionError("draws all batches, and random numbers")

    data = torch.utils.data.TensorDataset(torch.ones(8, 1))
    assert capture[1]._length(torch.utils.data.DataLoader(data, batch_sampler=Buckets())) is None
    assert capture[1]._length(torch.utils.data.DataLoader(data, sampler=Buckets())) is None
    assert capture[1]._length(torch.utils.data.DataLoader(data, 2, shuffle=True)) == 4
