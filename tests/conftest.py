"""What every test may ask for."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

settings.register_profile("whyidle", deadline=None)  # other programs use the machine, too: a law is no timed test
settings.load_profile("whyidle")
CORPUS = Path(os.environ.get("WHYIDLE_CORPUS", ROOT.parent / "shared" / "corpus"))


# A file is run by one process: those that take minutes begin first, so that no process has one left at the end.
LONGEST = (
    "test_accuracy.py",
    "test_survival.py",
    "test_style.py",
    "test_loader_trial.py",
    "test_apply.py",
    "test_injection.py",
    "test_replay_corpus.py",
    "test_corpus.py",
    "world/test_laws.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; the others stay in the order of their names."""
    place = {item.path: index for index, name in enumerate(LONGEST) for item in items if str(item.path).endswith(name)}
    items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


def pytest_configure(config: pytest.Config) -> None:
    """Begin files in that order: xdist keeps those of few tests, which may take long, for the end."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each reason how many tests were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the folder of real recordings made by others; skip where it is not."""
    if not CORPUS.is_dir():
        pytest.skip("no recordings here: set WHYIDLE_CORPUS to the corpus folder")
    return CORPUS
