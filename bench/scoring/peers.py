"""Other tools on the same files. Run by their own interpreter, this file prints one JSON object:

    PYTHON bench/scoring/peers.py hta TRACE...     {"idle_share": 0.48, "words": ["host_wait"]}

Words are the tool's own (peer_answers says what they mean). A tool that advises from limits of its own is taken at
its word; of one that only splits time, a part counts from 5% of the time, the limit of our own medium findings.
Several ranks: shares are means, and what is said of any rank is said.
"""

from __future__ import annotations

import gzip
import importlib
import json
import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

LEAST_SHARE = 0.05


def hta(traces: list[Path]) -> dict[str, Any]:
    analysis = importlib.import_module("hta.trace_analysis")
    ranks = {rank: str(trace.resolve()) for rank, trace in enumerate(traces)}
    run = analysis.TraceAnalysis(trace_files=ranks, trace_dir=str(traces[0].resolve().parent))
    time = run.get_temporal_breakdown(visualize=False)
    idle = float(time["idle_time_pctg"].mean()) / 100
    shares = {"non_compute": float(time["non_compute_time_pctg"].mean()) / 100}
    waits, _ = run.get_idle_time_breakdown(ranks=sorted(ranks), visualize=False)
    by_category = waits.groupby("idle_category")["idle_time"].sum()
    total = float(by_category.sum())
    for category, waited in by_category.items():
        shares[str(category)] = idle * float(waited) / total if total else 0.0
    return {"idle_share": idle, "words": largest(shares)}


def tb(traces: list[Path]) -> dict[str, Any]:
    data = importlib.import_module("torch_tb_profiler.profiler.data")
    role = importlib.import_module("torch_tb_profiler.profiler.event_parser").ProfileRole
    said: list[str] = []
    bars: dict[str, list[float]] = {"memcpy": [], "runtime": [], "cpu_exec": []}
    busy = []
    with tempfile.TemporaryDirectory() as cache:
        for trace in traces:
            profile = data.RunProfileData.parse("worker", "0", str(trace), cache)
            costs = profile.avg_costs.costs
            for bar, part in (("memcpy", role.Memcpy), ("runtime", role.Runtime), ("cpu_exec", role.CpuOp)):
                bars[bar].append(costs[part] / costs[role.Total])
            device = (role.Kernel, role.Memcpy, role.Memset, role.Communication)
            busy.append(sum(costs[part] for part in device) / costs[role.Total])
            said += [word for text in profile.recommendations for word in advice(text)]
    shares = {bar: mean(values) for bar, values in bars.items()}
    return {"idle_share": 1 - mean(busy), "words": [*dict.fromkeys(said), *largest(shares)]}


ADVICE = {
    "dataloader": "in DataLoader",
    "communication": "high time cost on communication",
    "amp": "Tensor Cores eligible",
    "low_utilization": "low utilization",
}


def advice(text: str) -> list[str]:
    """Return the word for a recommendation of torch_tb_profiler."""
    return [word for word, phrase in ADVICE.items() if phrase in text]


def tracelens(traces: list[Path]) -> dict[str, Any]:
    analyzer = importlib.import_module("TraceLens").TreePerfAnalyzer
    parts: dict[str, list[float]] = {"idle": [], "exposed_comm": [], "exposed_memcpy": []}
    for trace in traces:
        # unlinked kernels too: without the flow events that it links by, it would see no GPU work at all
        tree = analyzer.from_file(str(trace), include_unlinked_kernels=True)
        rows = {row["type"]: row["percent"] for row in tree.get_df_gpu_timeline().to_dict("records")}
        for part, values in parts.items():
            values.append(float(rows[f"{part}_time"]) / 100)
    shares = {part: mean(values) for part, values in parts.items()}
    return {"idle_share": shares["idle"], "words": largest(shares)}


def gpuidle(traces: list[Path]) -> dict[str, Any]:
    analyzer = importlib.import_module("analyzer")
    said: list[str] = []
    idle = []
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            plain = Path(folder, "trace.json")  # it reads no .gz
            plain.write_bytes(unpacked(trace))
            result = analyzer.analyze(plain)
            idle.append(1 - result["measurements"]["busy_pct"] / 100)
            for finding in result["findings"]:
                cause = finding["cause"]
                kind = f"_{result['measurements']['loader_kind']}" if cause == "dataloader" else ""
                said.append(cause + kind)
    return {"idle_share": mean(idle), "words": list(dict.fromkeys(said))}


def unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def largest(shares: Mapping[str, float]) -> list[str]:
    """Return the parts that are worth telling, the largest first."""
    return [word for word in sorted(shares, key=lambda word: -shares[word]) if shares[word] >= LEAST_SHARE]


PEERS: dict[str, Callable[[list[Path]], dict[str, Any]]] = {
    "hta": hta,
    "tb": tb,
    "tracelens": tracelens,
    "gpuidle": gpuidle,
}


def rank_of(path: Path) -> int:
    numbers = re.findall(r"\d+", path.name)
    return int(numbers[0]) if numbers else 0


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable()
    peer, *files = sys.argv[1:]
    answer = PEERS[peer](sorted((Path(file) for file in files), key=rank_of))
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main()
