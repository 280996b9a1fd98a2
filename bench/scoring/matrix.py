"""Which jobs are simulated: families × faults × severities × seeds, pairs, healthy jobs, controls, broken worlds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Protocol

from scoring.alike import answers

# What is put into jobs of mis-specified worlds: large enough that the fault is not the difficulty.
MISSPECIFIED_SEVERITY = 0.2


class Spec(Protocol):
    """A fault or a control, as the simulator describes it."""

    @property
    def families(self) -> Sequence[str]: ...
    @property
    def min_ranks(self) -> int: ...


class FaultSpec(Spec, Protocol):
    """A fault, with the severities that it can reach."""

    @property
    def severities(self) -> Sequence[float]: ...


class World(Protocol):
    """What the simulator offers."""

    @property
    def FAMILIES(self) -> Sequence[str]: ...  # noqa: N802 - its names
    @property
    def FAULTS(self) -> Mapping[str, FaultSpec]: ...  # noqa: N802
    @property
    def CONTROLS(self) -> Mapping[str, Spec]: ...  # noqa: N802
    @property
    def MISSPECIFIED(self) -> Sequence[str]: ...  # noqa: N802


@dataclass(frozen=True, slots=True)
class Job:
    """One simulation to make."""

    family: str
    seed: int
    ranks: int
    faults: tuple[tuple[str, float], ...] = ()
    control: str | None = None
    misspecified: str | None = None

    @property
    def name(self) -> str:
        """Return a name that can be a folder, and differs wherever jobs do."""
        what = [f"{fault}_{severity:g}" for fault, severity in self.faults] or ["healthy"]
        what += [f"control_{self.control}"] if self.control else []
        what += [f"world_{self.misspecified}"] if self.misspecified else []
        return "-".join([self.family, *what, f"r{self.ranks}", f"s{self.seed}"])


@dataclass(frozen=True, slots=True)
class Asked:
    """The part of the matrix that is wanted. Names may be patterns such as `sync.*`; none means all."""

    families: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    severities: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4)
    seeds: tuple[int, ...] = (0,)
    ranks: tuple[int, ...] = (1,)
    pairs: int = 40
    healthy: bool = True
    controls: bool = True
    misspecified: int = 200  # jobs with a fault in worlds that break our assumptions


def chosen(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the names that are wanted; a pattern that fits none is an error of the caller.

    Raises:
        ValueError: it names a pattern that fits nothing.
    """
    for pattern in wanted:
        if not any(fnmatch(name, pattern) for name in names):
            raise ValueError(f"{pattern}: no such name; there are {', '.join(names)}")
    return [name for name in names if not wanted or any(fnmatch(name, pattern) for pattern in wanted)]


def matrix(world: World, asked: Asked) -> list[Job]:
    """Return the jobs, each once, in an order that does not depend on anything else.

    A severity that a fault is said not to reach is not asked for: how many that leaves out is for the caller to say.
    """
    families = chosen(world.FAMILIES, asked.families)
    faults = chosen(list(world.FAULTS), asked.faults)
    jobs: list[Job] = []
    for family in families:
        for seed in asked.seeds:
            if asked.healthy:
                jobs += [Job(family, seed, ranks) for ranks in asked.ranks]
            if asked.controls:
                jobs += _controls(world, asked, family, seed)
            jobs += _singles(world, asked, family, seed, faults)
    jobs += _pairs(world, asked, families, faults)
    if asked.misspecified:
        jobs += _misspecified(world, asked, families, faults)
    return list(dict.fromkeys(jobs))


def reachable(spec: FaultSpec, severity: float) -> bool:
    """Say whether a fault is said to reach a severity."""
    return bool(spec.severities[0] <= severity <= spec.severities[-1])


def _ranks(asked: Asked, least: int) -> Iterator[int]:
    yield from dict.fromkeys(max(ranks, least) for ranks in asked.ranks)


def _controls(world: World, asked: Asked, family: str, seed: int) -> Iterator[Job]:
    for name, control in world.CONTROLS.items():
        if family in control.families:
            for ranks in _ranks(asked, control.min_ranks):
                yield Job(family, seed, ranks, control=name)


def _singles(world: World, asked: Asked, family: str, seed: int, faults: Sequence[str]) -> Iterator[Job]:
    for fault in faults:
        spec = world.FAULTS[fault]
        if family in spec.families:
            for ranks in _ranks(asked, spec.min_ranks):
                for severity in asked.severities:
                    if reachable(spec, severity):
                        yield Job(family, seed, ranks, ((fault, severity),))


def _pairs(world: World, asked: Asked, families: Sequence[str], faults: Sequence[str]) -> Iterator[Job]:
    """Yield pairs drawn by chance, always the same ones; none that one answer would cover."""
    chance = random.Random(0)
    kinds = [
        (family, first, second)
        for family in families
        for i, first in enumerate(faults)
        for second in faults[i + 1 :]
        if family in world.FAULTS[first].families
        and family in world.FAULTS[second].families
        and answers(first).isdisjoint(answers(second))
    ]
    drawn = chance.sample(kinds, min(asked.pairs, len(kinds)))
    for family, *pair in drawn:
        # of each no more than half of the time: two faults of 40% leave no job to speak of
        options = [[s for s in asked.severities if 0.05 <= s <= 0.25 and reachable(world.FAULTS[f], s)] for f in pair]
        if all(options):
            ranks = max(asked.ranks[0], *(world.FAULTS[fault].min_ranks for fault in pair))
            severities = (chance.choice(option) for option in options)
            yield Job(family, chance.choice(asked.seeds), ranks, tuple(zip(pair, severities, strict=True)))


def _misspecified(world: World, asked: Asked, families: Sequence[str], faults: Sequence[str]) -> Iterator[Job]:
    """Yield a healthy job per world and family, and faults drawn by chance, as many of each world."""
    severity = min(asked.severities, key=lambda value: abs(value - MISSPECIFIED_SEVERITY))
    seed, ranks = asked.seeds[0], asked.ranks[0]
    kinds = [
        (family, fault)
        for family in families
        for fault in faults
        if family in world.FAULTS[fault].families and reachable(world.FAULTS[fault], severity)
    ]
    chance = random.Random(1)
    for i, name in enumerate(world.MISSPECIFIED):
        yield from (Job(family, seed, ranks, misspecified=name) for family in families)
        worlds = len(world.MISSPECIFIED)
        share = asked.misspecified // worlds + (i < asked.misspecified % worlds)
        for family, fault in chance.sample(kinds, min(share, len(kinds))):
            least = world.FAULTS[fault].min_ranks
            yield Job(family, seed, max(ranks, least), ((fault, severity),), misspecified=name)


def not_offered(world: World, asked: Asked) -> int:
    """Return how many single-fault jobs the simulator does not offer at a severity that was asked for."""
    families = chosen(world.FAMILIES, asked.families)
    specs = [world.FAULTS[fault] for fault in chosen(list(world.FAULTS), asked.faults)]
    return sum(
        not reachable(spec, severity)
        for spec in specs
        for family in families
        if family in spec.families
        for _ in asked.seeds
        for _ in _ranks(asked, spec.min_ranks)
        for severity in asked.severities
    )
