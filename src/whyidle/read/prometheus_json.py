"""Answers of Prometheus' HTTP API that somebody kept: a range query is a curve, an instant one a moment.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.prometheus_text import curve_of
from whyidle.read.samples import Samples, text_of

HEAD: Final = re.compile(
    rb'^\s*\{(?=.{0,64}"status"\s*:\s*"success")(?=.{0,256}"resultType"\s*:\s*"(?:matrix|vector)")', re.DOTALL
)
FURTHEST: Final = 1e11  # s since 1970
ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
BY_NAME: Final = "Ask for the metric itself, `query=DCGM_FI_DEV_GPU_UTIL`: functions and sums leave its name out."


class PrometheusJson(Reader):
    """What /api/v1/query_range or /api/v1/query answered."""

    kind = "prometheus answer"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.match(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. A range query repeats the last sample where it asks more often than there are samples."""
        samples = Samples()
        try:
            found = json.loads(text_of(path, samples.warnings, progress))["data"]["result"]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise UnreadableError(
                path, f"an answer of Prometheus, damaged or cut short ({error}).", damaged=True
            ) from None
        series = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        labels = [one["metric"] for one in series if isinstance(one.get("metric"), dict)]
        if labels and not any("__name__" in one for one in labels):
            raise UnreadableError(path, "an answer of Prometheus whose series have no name.", BY_NAME)
        return curve_of(_lines(series), samples, path, self.kind)


def _lines(series: list[dict[str, object]]) -> Iterator[str]:
    """Yield the samples as lines of the text format."""
    for one in series:
        metric, values = one.get("metric"), one.get("values", [one.get("value")])
        if not isinstance(metric, dict) or not isinstance(values, list):
            continue
        labels = ",".join(
            f'{name}="{str(label).translate(ESCAPES)}"' for name, label in metric.items() if name != "__name__"
        )
        head = f"{metric.get('__name__', '')}{{{labels}}}"
        for sample in values:
            match sample:
                case [int() | float() as when, str() as value] if abs(when) < FURTHEST:
                    yield f"{head} {value} {round(when * 1000)}"
