"""The command line: simulate one job, or curves of many.

python -m world --family gpt --fault sync.scalar_read=0.2 --ranks 8 --seed 3 --out runs/gpt
python -m world curves runs/curves --count 200 --seed 3
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from world import CONTROLS, FAMILIES, FAULTS, GPUS, MISSPECIFIED, UnreachableError, curves, simulate

EXAMPLES = """\
examples:
  python -m world --family gpt --fault sync.scalar_read=0.2 --ranks 8 --seed 3 --out runs/gpt
  python -m world --family resnet --fault input.workers_zero=0.2 --fault compute.channels_last=0.1 --out runs/two
  python -m world --family bert --control python_behind_the_queue --out runs/control
  python -m world --family cnn --gpu V100 --dialect 2021 --no-shapes --out runs/old
  python -m world --list
  python -m world curves runs/curves --count 200 --seed 3

The traces go to DIR, what is true of them to DIR.truth.json beside it.
"""


def main(arguments: list[str] | None = None) -> int:
    """Simulate a job as the arguments say; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["curves"]:
        return _curves(arguments[1:])
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        print(_known())
        return 0
    faults = _faults(parser, given)
    out = _folder(parser, given.out)
    recording: dict[str, Any] = {
        name: value
        for name in ("dialect", "nanoseconds", "stacks", "shapes", "marks")
        if (value := getattr(given, name)) is not None
    }
    if faults and sys.stderr.isatty():
        print("world: running the job until its faults cost what was asked; many ranks take minutes", file=sys.stderr)
    try:
        truth = simulate(
            given.family, faults, given.control, given.misspecified,
            gpu=given.gpu, ranks=given.ranks, seed=given.seed, steps=given.steps, out=out, **recording,
        )  # fmt: skip
    except UnreachableError as error:
        out.rmdir()
        print(f"world: {error} Try a smaller severity, another family or another seed.", file=sys.stderr)
        return 2
    if truth["calibrated"] == "alone":
        print("world: these faults hide each other; each is worth what was asked without the other.", file=sys.stderr)
    print(
        json.dumps(
            {
                key: truth[key]
                for key in ("step_time_s", "faults", "step_time_without_all_s", "control", "misspecified")
            },
            indent=1,
        )
    )
    print(f"world: wrote {given.out} and {given.out}.truth.json. Now: whyidle {given.out}", file=sys.stderr)
    return 0


def _curves(arguments: list[str]) -> int:
    """Write counters of GPUs and logs of trainers for many long jobs."""
    parser = argparse.ArgumentParser("python -m world curves", description=curves.__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one: a folder per job, and truth.json")
    parser.add_argument("--count", type=_count, default=200, help="jobs, 1 to 10000; default: 200")
    parser.add_argument("--seed", type=_seed, default=0, help="of all that is random; default: 0")
    given = parser.parse_args(arguments)
    if given.folder.exists() and (given.folder.is_file() or any(given.folder.iterdir())):
        parser.error(f"{given.folder} is a file or not empty. Name a new folder.")
    curves.write(given.folder, given.count, given.seed)
    print(f"world: wrote {given.count} jobs and truth.json to {given.folder}.", file=sys.stderr)
    return 0


def _folder(parser: argparse.ArgumentParser, asked: Path | None) -> Path:
    """Return the folder to write to, made; nothing that is there is touched."""
    if asked is None or not str(asked):
        parser.error("--out DIR says where the traces go.")
    out = asked.resolve()
    truth = out.with_name(out.name + ".truth.json")
    if out.is_file():
        parser.error(f"{asked} is a file. Name a folder.")
    if (out.is_dir() and any(out.iterdir())) or truth.exists():
        parser.error(f"{asked} is not empty, or {truth.name} stands beside it. Name a new folder.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"{asked} cannot be made: {error.strerror}. Name another folder.")
    return out


def _faults(parser: argparse.ArgumentParser, given: argparse.Namespace) -> dict[str, float]:
    """Return severities by fault, if all of what is asked for goes together."""
    faults: dict[str, float] = {}
    for name, severity in (_fault(parser, text) for text in given.fault):
        if name in faults:
            parser.error(f"{name} is given twice.")
        if given.ranks < FAULTS[name].min_ranks:
            parser.error(f"{name} needs --ranks {FAULTS[name].min_ranks} or more.")
        if given.family not in FAULTS[name].families:
            parser.error(f"{name} is a fault for {', '.join(FAULTS[name].families)}, not for {given.family}.")
        faults[name] = severity
    if given.control and faults:
        parser.error("a control is a job without faults: give --control or --fault.")
    if given.control and given.ranks < CONTROLS[given.control].min_ranks:
        parser.error(f"{given.control} needs --ranks {CONTROLS[given.control].min_ranks} or more.")
    if given.dialect == "2021" and (given.stacks or given.nanoseconds):
        parser.error(
            "traces of 2021 have no Python frames and whole microseconds: leave out --stacks and --nanoseconds."
        )
    return faults


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m world",
        description="Simulate a training job with known faults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--family", choices=FAMILIES, default="resnet", help="the network; default: resnet")
    add(
        "--fault",
        metavar="ID=SEVERITY",
        action="append",
        default=[],
        help="share of the step time that the fault costs, 0 to 0.6; may be given again",
    )
    add(
        "--control",
        choices=CONTROLS,
        help="a job that looks like a fault and has none (what else it would gain by is in its truth)",
    )
    add("--misspecified", choices=MISSPECIFIED, help="a world that is not the usual one")
    add("--gpu", choices=GPUS, help="by default the seed chooses")
    add("--ranks", type=_ranks, default=1, help="1 to 16, one GPU each; default: 1")
    add("--seed", type=_seed, default=0, help="of all that is random, and of matters of taste; default: 0")
    add("--steps", type=_steps, default=10, help="steps that are recorded, 4 to 1000; default: 10")
    add("--dialect", choices=("2021", "today"), help="of the trace; default: today")
    add(
        "--nanoseconds",
        action=argparse.BooleanOptionalAction,
        help="times with three decimals; by default the seed chooses",
    )
    add("--stacks", action=argparse.BooleanOptionalAction, help="Python frames; by default the seed chooses")
    add("--shapes", action=argparse.BooleanOptionalAction, help="sizes and types of operands")
    add("--marks", action=argparse.BooleanOptionalAction, help="ProfilerStep ranges")
    add("--out", type=Path, metavar="DIR", help="a new folder; the truth goes beside it")
    add("--list", action="store_true", help="list faults, controls and mis-specified worlds")
    return parser


def _fault(parser: argparse.ArgumentParser, text: str) -> tuple[str, float]:
    name, _, severity = text.partition("=")
    if name not in FAULTS:
        parser.error(f"{name} is no fault of this world. `python -m world --list` lists them.")
    try:
        value = float(severity)
    except ValueError:
        parser.error(f"--fault {text}: write it as {name}=0.2, the share of the step time that it costs.")
    if not 0 <= value <= 0.6:
        parser.error(f"--fault {text}: the severity is a share from 0 to 0.6.")
    return name, value


def _ranks(text: str) -> int:
    return _within(int(text), 1, 16)


def _seed(text: str) -> int:
    return _within(int(text), 0, 2**31)


def _steps(text: str) -> int:
    return _within(int(text), 4, 1000)


def _count(text: str) -> int:
    return _within(int(text), 1, 10_000)


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{value} is not from {low} to {high}")
    return value


def _known() -> str:
    lines = ["faults:"]
    for fault in FAULTS.values():
        ranks = f", from {fault.min_ranks} ranks on" if fault.min_ranks > 1 else ""
        lines.append(f"  {fault.id:28} {fault.title} ({', '.join(fault.families)}{ranks})")
    lines += ["controls:", *(f"  {control.name:28} {control.title}" for control in CONTROLS.values())]
    return "\n".join([*lines, "mis-specified worlds:", *(f"  {name}" for name in MISSPECIFIED)])


if __name__ == "__main__":
    sys.exit(main())
