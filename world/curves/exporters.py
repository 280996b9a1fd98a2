"""Samples as monitoring systems hand them out: scrapes of dcgm-exporter, an answer of CloudWatch."""

from __future__ import annotations

import json
from collections.abc import Sequence

from world.curves.sampling import Product, Samples
from world.curves.tables import at, minute

FIELDS = (  # metric, help, attribute of Samples, factor to its unit, decimals
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", "clock_mhz", 1.0, 0),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "temperature_c", 1.0, 0),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", "power_w", 1.0, 3),
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "utilization", 1.0, 0),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", "memory_mib", 1.0, 0),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", "busy", 1.0, 6),
    ("DCGM_FI_PROF_SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", "sm", 1.0, 6),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", "tensor", 1.0, 6),
)


def dcgm(gpus: Sequence[Samples], product: Product) -> str:
    """Return scrapes of dcgm-exporter, one after the other, with their times (ms since 1970)."""
    lines = []
    for i in range(max(len(one.time) for one in gpus)):
        for metric, words, name, factor, decimals in FIELDS:
            lines.append(f"# HELP {metric} {words}\n# TYPE {metric} gauge\n")
            for one in gpus:
                if i < len(one.time) and (value := getattr(one, name)[i]) == value:
                    uuid = f"GPU-00000000-0000-0000-0000-{one.gpu:012d}"
                    stamp = round(at(one.time[i]).timestamp() * 1000)
                    lines.append(
                        f'{metric}{{gpu="{one.gpu}",UUID="{uuid}",device="nvidia{one.gpu}",modelName="{product.name}",'
                        f'Hostname="node0"}} {factor * value:.{decimals}f} {stamp}\n'
                    )
    return "".join(lines)


def cloudwatch(gpus: Sequence[Samples], product: Product) -> str:
    """Return an answer of get_metric_data: means of a minute, summed over the GPUs of the instance."""
    results: list[dict[str, object]] = []
    for label, name in (("GPUUtilization", "utilization"), ("GPUMemoryUtilization", "memory_mib")):
        scale = 1.0 if name == "utilization" else 100 / product.memory_mib
        each = [minute(one, getattr(one, name)) for one in gpus]
        known = sorted(set.intersection(*map(set, each)))
        results.append(
            {
                "Id": f"m{len(results)}",
                "Label": f"algo-1 {label}",
                "Timestamps": [at(60 * k).isoformat() for k in known],
                "Values": [round(scale * sum(one[k] for one in each), 4) for k in known],
                "StatusCode": "Complete",
            }
        )
    about = {"job": "training-job", "gpus_per_instance": len(gpus), "gpu": product.name}
    return json.dumps({"MetricDataResults": results, "whyidle": about}, indent=1) + "\n"
