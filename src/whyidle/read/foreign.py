"""Formats that we know and do not read, so that a person is told what the file is instead of "not a trace".

A row goes when its reader comes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOK_AT: Final = 4096  # bytes of a JSON file; deeper in, a trace of torch.profiler may mention the others


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format: what it is called, how it is recognised, what to do instead."""

    name: str
    suffixes: tuple[str, ...] = ()
    content: re.Pattern[bytes] | None = None
    hint: str = ""
    why: str = "which whyidle does not read yet"
    among_others: bool = False  # its lines stand in logs of other formats as well: those who read them are asked first


def _has(*patterns: str) -> re.Pattern[bytes]:
    return re.compile("|".join(patterns).encode("latin-1"), re.DOTALL)


UNPACK: Final = "Unpack it and give the folder."
RECORD_GPUS: Final = "nvidia-smi dmon -s pucvmt -o DT > dmon.txt"
NEVER_OPENED: Final = "whyidle never opens pickles: loading one runs what it says."

# Content is asked before suffixes.
FORMATS: Final = (
    Foreign("an Nsight Systems report", (".nsys-rep", ".qdrep", ".qdstrm")),
    Foreign("an Nsight Compute report", (".ncu-rep",)),
    Foreign("an Nsight Systems export", content=_has(r"^SQLite format 3\0.*(?:CUPTI_ACTIVITY|NVTX_EVENTS|StringIds)")),
    Foreign("a SQLite database", (".sqlite", ".db"), _has(r"^SQLite format 3\0")),
    Foreign("a rocprof trace (rocprofiler-sdk)", (".rocpd",), _has(r'^\s*\{\s*"rocprofiler-sdk-tool"')),
    Foreign(
        "a trace of the legacy autograd profiler",
        content=_has(r'"pid"\s*:\s*"(?:CPU|CUDA) functions"'),
        hint="torch.autograd.profiler's old format has no launches; record with torch.profiler instead.",
    ),
    Foreign("a SageMaker Debugger timeline", content=_has(r'"start_time_since_epoch_in_micros"')),
    Foreign("a Horovod timeline", content=_has(r'"name"\s*:\s*"(?:CYCLE_START|[^"]*HorovodAll)')),
    Foreign("a TensorFlow profile", (".pb",), _has(r'"highres-ticks"', r'"name"\s*:\s*"/(?:host:CPU|device:[CGT]PU)')),
    Foreign("a speedscope profile (py-spy)", content=_has(r"speedscope\.app/file-format-schema")),
    Foreign("a py-spy dump", content=_has(r'^(?:Process \d+:|Thread (?:\S+ )?\((?:idle|active)\S*\): ")')),
    Foreign(
        "an NCCL log",
        content=_has(r"NCCL (?:INFO|WARN)", r"^# (?:Collective test starting|nThread \d+ nGpus)"),
        among_others=True,
    ),
    Foreign("a torch.profiler table", content=_has(r"Self CPU (?:%|time total)", r"^FIT Profiler Report")),
    Foreign(
        "a torch.compile log",
        content=_has(r"torch[./]_dynamo.{0,40}\.py:\d+\]", r"torch\._dynamo hit config\."),
        among_others=True,
    ),
    Foreign(
        "an nvidia-smi list of processes",
        content=_has(r"^timestamp\s*,[^\n]*\bpid\b", r"^[^\n]*\bpid\b[^\n]*used_gpu_memory"),
        hint=f"It has no utilization over time: {RECORD_GPUS}",
    ),
    Foreign(
        "an error message of nvidia-smi",
        content=_has(
            r"^(?:NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|Unable to determine the device)"
        ),
        why="no recording",
        hint=f"It could not ask the driver. Where `nvidia-smi` works: {RECORD_GPUS}",
    ),
    Foreign(
        "vLLM server metrics",
        content=_has(r"^[^\n]*kv_cache_usage[^\n]*num_requests_running"),
        hint=f"They have no GPU utilization: {RECORD_GPUS}",
    ),
    Foreign(
        "an iostat listing",
        content=_has(r"^(?:Linux [^\n]*\n\s*)?(?:avg-cpu:[^\n]*\n[^\n]*\n\s*)?Device:?\s+(?:r/s|tps|rrqm/s)"),
        hint=f"It tells of disks; of GPUs: {RECORD_GPUS}",
    ),
    Foreign(
        "a DCGM diagnostic (dcgmi diag)",
        content=_has(r"^Successfully ran diagnostic for group", r"\| Diagnostic +\| Result"),
        hint=f"It tests hardware; how busy GPUs are tells: {RECORD_GPUS}",
    ),
    Foreign(
        "a listing of AMD GPUs (rocm-smi, amd-smi)",
        content=_has(
            r"^(?:device|gpu|card)\b[^\n]*(?:GPU use \(%\)|gfx_activity)", r"ROCm System Management Interface"
        ),
        hint="It tells no time. `amd-smi monitor --csv -w 1` does, with --file.",
    ),
    Foreign(
        "a table of one value per row (metric, value)",
        content=_has(
            r"^(?i:(?=[^\n]*\b(?:metric|key|series)(?:_?name)?\b)(?=[^\n]*\bvalue\b)(?=[^\n]*\btime)[^\n{]*[,;\t])"
        ),
        hint="Give each metric a column of its own: time,gpu,utilization_percent.",
    ),
    Foreign(
        "CloudWatch's graph as CSV",
        content=_has(r'^"?Label"?,[^\n]*Utilization'),
        hint="`aws cloudwatch get-metric-data` or `whyidle sagemaker://JOB` is read.",
    ),
    Foreign(
        "Influx lines (Telegraf)", content=_has(r"^nvidia_smi,[^\n]*utilization_gpu="), hint='data_format = "json"'
    ),
    Foreign(
        "gpustat's listing",
        content=_has(r"^\S+\s+\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}[^\n]*\n\[\d+\] "),
        hint="`while sleep 1; do gpustat --json; done > gpus.json` is read.",
    ),
    Foreign("a Parquet table", (".parquet",), _has(r"^PAR1")),
    Foreign("an archive", (".zip", ".tar", ".tgz", ".7z", ".rar"), _has(r"^.{257}ustar", r"^7z\xbc\xaf"), UNPACK),
    Foreign("Zstandard-compressed", (".zst",), _has(r"^\x28\xb5\x2f\xfd"), "zstd -d FILE"),
    Foreign("bzip2- or xz-compressed", (".bz2", ".xz"), _has(r"^BZh\d1AY", r"^\xfd7zXZ\0"), "Unpack it, or use gzip."),
    Foreign("a PyTorch checkpoint or memory snapshot", (".pt", ".pth", ".ckpt"), _has(r"^PK\x03\x04"), NEVER_OPENED),
    Foreign("a pickle", (".pkl", ".pickle"), _has(r"^\x80[\x02-\x05]"), NEVER_OPENED),
    Foreign(
        "a Python script",
        (".py",),
        hint="Record the job that it starts, `whyidle run -- python train.py`, or judge its source, `whyidle lint`.",
        why="not a recording",
    ),
    Foreign("a Perfetto trace", (".pftrace", ".perfetto-trace")),
    Foreign("text in UTF-16", content=_has(r"^(?:\xff\xfe|\xfe\xff)"), hint="Save it as UTF-8."),
)


def foreign(head: bytes, path: Path) -> Foreign | None:
    """Return the known format that this is, by its first bytes, else by its name; None if it is none of them."""
    is_json = head.lstrip()[:1] in (b"{", b"[")
    head = head[:LOOK_AT] if is_json else head
    for known in FORMATS:
        if known.content is not None and known.content.search(head):
            return known
    if is_json:
        return None
    name = path.name.lower()
    return next((known for known in FORMATS if name.endswith(known.suffixes or "\0")), None)
