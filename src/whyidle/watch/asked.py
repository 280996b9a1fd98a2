"""What `whyidle watch` was asked for, and what of that cannot be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from whyidle.errors import WhyIdleError

LEAST_INTERVAL_S = 0.1  # NVML's own sample period is 1/6 s to 1 s: what is asked more often tells nothing new
LONGEST_INTERVAL_S = 60.0
LONGEST_WINDOW_S = 86_400.0
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of `whyidle watch`; times in s.

    Attributes:
        last_s: what the verdict is on.
        every_s: between two times that it is shown; None for 2 on a terminal, 60 elsewhere.
        once: look for `look_s`, say what was seen and end.
        format: terminal or json.
        price: US dollars per GPU-hour; None for the list price of each GPU.
        price_file: the file that says so; "" for the command line.
        listen: [HOST:]PORT of the exporter; None for none.
        alarm: an idle GPU is told: whatever sink there is, else on the screen.
        floor: mean utilization below which a GPU counts as idle, 0-1.
        window_s: for so long.
        grace_s: that a job may take before its first activity.
        held_only: a GPU that nobody holds is nobody's fault.
        keep: alarms are kept, for a report at the end.
        exempt: patterns of names, users and labels of jobs that may idle.
    """

    interval_s: float = 1.0
    once: bool = False
    look_s: float = 5.0
    last_s: float = 300.0
    every_s: float | None = None
    format: str = "terminal"
    color: bool = True
    price: float | None = None
    price_file: str = ""
    listen: str | None = None
    alarm: bool = False
    floor: float = 0.15
    window_s: float = 900.0
    grace_s: float = 600.0
    held_only: bool = False
    exempt: tuple[str, ...] = ()
    command: str | None = None
    webhook: str | None = None
    exit_on_alarm: bool = False
    keep: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            WhyIdleError: for a format, an interval, a floor or times that make no sense.
        """
        if self.format == "html":
            raise WhyIdleError("a watch writes its page to a file, when it ends", "whyidle watch --report gpus.html")
        if self.format not in {"terminal", "json"}:
            raise WhyIdleError(f"no format is called {self.format!r}", "formats: json, terminal")
        _within("--interval", self.interval_s, LEAST_INTERVAL_S, LONGEST_INTERVAL_S)
        _within("--for", self.look_s, self.interval_s, LONGEST_WINDOW_S)
        _within("--last", self.last_s, self.interval_s, LONGEST_WINDOW_S)
        if self.every_s is not None:
            _within("--every", self.every_s, self.interval_s, LONGEST_WINDOW_S)
        _within("--window", self.window_s, self.interval_s, LONGEST_WINDOW_S)
        _within("--grace", self.grace_s, 0.0, LONGEST_WINDOW_S)
        if not 0 < self.floor <= 1:
            hint = f"--floor {self.floor:g}%" if 1 < self.floor <= 100 else "--floor 15%"
            raise WhyIdleError(f"the floor is a utilization above 0 and at most 100%, not {self.floor:g}", hint)
        if self.once and (self.alarming or self.listen is not None):
            raise WhyIdleError("--once looks once: there is no alarm, and nothing to scrape", "leave --once away")

    @property
    def alarming(self) -> bool:
        """Whether anybody wants to be told."""
        return self.alarm or self.exit_on_alarm or self.command is not None or self.webhook is not None


def _within(option: str, seconds: float, least: float, most: float) -> None:
    if not (math.isfinite(seconds) and least <= seconds <= most):
        raise WhyIdleError(
            f"{option} is {least:g} to {most:g} seconds, not {seconds:g}", f"{option} {max(least, 1):g}s"
        )


def address(text: str) -> tuple[str, int]:
    """Return host and port of "9835", ":9835", "0.0.0.0:9835" or "[::1]:9835"; loopback where no host is named.

    Raises:
        WhyIdleError: where there is no port.
    """
    host, _, port = text.strip().rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise WhyIdleError(f"{text!r} is no address to listen on: [HOST:]PORT", "--listen 9835")
    return host.strip("[]") or LOOPBACK, int(port)
