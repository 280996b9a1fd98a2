"""Notices processes that look as if they trained and that leave no records, and says why and what to do.

An empty report would look like a healthy job. So this is about the whole command: a helper that needs no recording
(a worker, a compiler, the launcher itself) must not be named.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.collect import procfs
from whyidle.collect.processes import MARK, Process

CAPTURE_CODE = Path(__file__).parents[1] / "capture"  # what `whyidle run` puts on PYTHONPATH
AFTER_S = 15.0  # a job that has run for less may still be starting
CPU_S = 5.0  # importing torch takes 2 to 5 s of CPU
UNEXPLAINED_CPU_S = 30.0  # where nothing says why: only what has worked for long
LOOKS = 8  # processes whose memory map is read at once
MOST = 8  # that are named
LONGEST_COMMAND = 200  # characters

HELPERS = (
    *("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver"),
    *("torch._inductor.compile_worker", "compile_worker", "torch_shm_manager", "tensorboard", "wandb-core"),
)
LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch", "torchrun", "accelerate", "deepspeed")
WITH_VALUE = "XW"  # options of the interpreter that take a value
LAST = "cm"  # options after which the program's own begin
BLINDING = {
    "I": "Python was started with -I, which ignores PYTHONPATH",
    "E": "Python was started with -E, which ignores PYTHONPATH",
    "S": "Python was started with -S, which does not run sitecustomize",
}


@dataclass(frozen=True, slots=True)
class Missed:
    """An entry of `not_captured` in node.json."""

    pid: int
    command: str
    why: str
    hint: str


class Watcher:
    """Looks for processes that train unseen.

    Args:
        capture: the folder in which processes leave rings.
        root: where the machine's files lie.
    """

    def __init__(self, capture: Path, root: Path = Path("/")) -> None:
        self._capture = capture
        self._root = root
        self._named: dict[int, Missed] = {}
        self._torch: set[int] = set()  # of which we know that they have loaded it

    def look(self, job: dict[int, Process], ringed: Collection[int], age_s: float) -> list[Missed]:
        """Return all processes that were found so far.

        Args:
            job: the job's processes.
            ringed: processes that have, or had, a ring.
            age_s: for how long the job has run.
        """
        if ringed:  # something trains and is seen: what was only suspected was something else
            for pid, missed in list(self._named.items()):
                if pid in ringed or missed.why in (_UNKNOWN[0], _HIDDEN[0]):
                    del self._named[pid]
        self._torch &= job.keys()
        if age_s >= AFTER_S:
            suspects = [process for process in job.values() if self._is_suspect(process, ringed)][:LOOKS]
            loaded = {process.pid: process for process in suspects if self._has_torch(process)}
            for process in loaded.values():
                if process.stat.parent in loaded or process.stat.parent in self._named:
                    continue  # its child: mending the parent mends it
                reason = self._why(process)
                if reason not in (_UNKNOWN, _HIDDEN) or self._seems_to_train(process, ringed):
                    self._name(process, *reason)
        return list(self._named.values())

    def _seems_to_train(self, process: Process, ringed: Collection[int]) -> bool:
        """Return whether a process probably trains, where nothing shows why it would not be captured."""
        agent = any(self._capture.glob(f"{process.pid}-*"))  # ours is in there: it would see training
        return not ringed and not agent and process.stat.cpu_s >= UNEXPLAINED_CPU_S

    def _name(self, process: Process, why: str, hint: str) -> None:
        command = shlex.join(process.command)
        if len(command) > LONGEST_COMMAND:
            command = command[: LONGEST_COMMAND - 1] + "…"
        same = any((known.command, known.why) == (command, why) for known in self._named.values())
        if len(self._named) < MOST and not same:
            self._named[process.pid] = Missed(process.pid, command, why, hint)

    def _is_suspect(self, process: Process, ringed: Collection[int]) -> bool:
        return (
            process.pid not in ringed
            and process.pid not in self._named
            and process.stat.cpu_s >= CPU_S
            and process.role != "worker"
            and not process.stat.name.startswith("pt_data_")
            and self._is_python(process)
            and not _is_helper(process.command)
        )

    def _is_python(self, process: Process) -> bool:
        if process.command and "python" in Path(process.command[0]).name:
            return True
        try:
            return (self._root / f"proc/{process.pid}/exe").readlink().name.startswith("python")
        except OSError:
            return False

    def _has_torch(self, process: Process) -> bool:
        """Return whether a process has loaded torch, or does not let us see it."""
        if process.pid not in self._torch:
            maps = procfs.read(f"{self._root}/proc/{process.pid}/maps")
            if maps is not None and b"/libtorch" not in maps:
                return False
            self._torch.add(process.pid)
        return True

    def _why(self, process: Process) -> tuple[str, str]:
        """Return why a process leaves no records, and what to do."""
        for option in interpreter_options(process.command):
            if option in BLINDING:
                return BLINDING[option], f"start it without -{option}"
        environment = procfs.environment(self._root, process.pid)
        if environment is None:
            return _HIDDEN
        if MARK not in environment:
            return (
                f"its environment was emptied: {MARK} is missing",
                f"pass {MARK}, WHYIDLE_OPTIONS and PYTHONPATH on to it: sudo -E, docker run -e, srun --export=ALL",
            )
        if Path(environment[MARK]).resolve() != self._capture.resolve():
            return "another `whyidle run`, inside this one, records it", "leave one of the two out"
        if str(CAPTURE_CODE) not in environment.get("PYTHONPATH", "").split(":"):
            return (
                "PYTHONPATH was set anew after whyidle had added to it",
                "add to it, as in PYTHONPATH=mine:$PYTHONPATH, instead of setting it anew",
            )
        return _UNKNOWN


_HIDDEN = ("it runs as another user, and may not be looked into", "start `whyidle run` as the user that trains")
_UNKNOWN = (
    "it uses PyTorch, and nothing was seen that looks like training",
    "if it trains, `with whyidle.watch_training():` around the loop shows it to whyidle",
)


def _is_helper(command: Sequence[str]) -> bool:
    """Return whether a command line is that of something that starts or serves training processes."""
    program = [Path(word).name if word.startswith("/") else word for word in command[:6]]
    if any(helper in word for word in program for helper in HELPERS):
        return True
    return any(word == launcher for word in program for launcher in LAUNCHERS) or "accelerate.commands" in str(program)


def interpreter_options(command: Sequence[str]) -> Iterator[str]:
    """Yield the letters of the options that Python itself was started with: `-Iu -X dev train.py` has I, u and X."""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--") or word.startswith("--"):
            return
        for position, letter in enumerate(word[1:], 2):
            yield letter
            if letter in LAST:
                return
            if letter in WITH_VALUE:
                if position == len(word):
                    next(words, None)
                break
