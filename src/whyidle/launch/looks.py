"""What is looked at inside a job, and what is set there, as the job's processes are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from whyidle.launch.settings import Value


@dataclass(frozen=True, slots=True)
class Looks:
    """What is looked at beside the steps; docs/run-directory.md has what comes of it."""

    trace: bool = True  # a few steps with torch.profiler
    trace_steps: int = 6
    trace_after: int = 20  # steps
    trace_ranks: str = "0"  # or "all"
    syncs: int = 3  # steps in which synchronisations are looked for
    workers: bool = False  # stacks of the DataLoader's workers
    losses: bool = False  # the loss of each backward pass
    set: Mapping[str, Value] = field(default_factory=dict)  # what is not as the script has it; see launch.settings
    loader_trial: Mapping[str, object] | None = None  # `whyidle loader`: how the training's loader is measured

    def json(self) -> str:
        """Return them as text."""
        return json.dumps(asdict(self))
