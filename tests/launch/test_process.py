"""The job cannot tell that it has another parent: streams, signals and its end are those of the bare command."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.launch.conftest import DEADLINE_S, Ran, Start, environment, wait_for

WHYIDLE = shlex.join([sys.executable, "-m", "whyidle", "run"])
# What a job has of its parent: streams, group, signals that are ignored or blocked, variables, limits, folder.
SITUATION = """
import os, resource, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
of_glibc = 3 << 31  # signals 32 and 33, which its posix_spawn leaves ignored until somebody uses them
print(status["SigBlk"], int(status["SigIgn"], 16) & ~of_glibc, status["Umask"], status["Cpus_allowed"])
print(os.getpgid(0) == GROUP, [os.isatty(fd) for fd in range(3)], sorted(os.listdir("/proc/self/fd")))
print(sorted(set(os.environ) - {"PYTHONPATH", "WHYIDLE_CAPTURE", "WHYIDLE_OPTIONS"}), os.getcwd(), sys.argv[2:])
print(resource.getrlimit(resource.RLIMIT_CORE), sys.stdin.read(), os.nice(0), sys.path)
sys.stderr.write("half a line")
sys.exit(7)
"""


def both(start: Start, *command: str, **options: object) -> tuple[Ran, Ran]:
    """Run a command bare and under watch."""
    return start(*command, bare=True, **options).end(), start(*command, options=("-o", "run", "-q"), **options).end()


def test_the_job_is_in_the_same_situation(tmp_path: Path) -> None:
    script = SITUATION.replace("GROUP", "int(sys.argv[1])")
    ends = []
    for front in ("", f"{WHYIDLE} -q -- "):
        line = f'trap "" USR1; printf given | {front}{sys.executable} -c {shlex.quote(script)} $$ -x -- "a b"'
        ran = subprocess.run(
            ["bash", "-c", line], capture_output=True, cwd=tmp_path, env=environment(), process_group=0, check=False
        )
        ends.append((ran.returncode, ran.stdout.decode().splitlines(), ran.stderr))
    for bare, watched in zip(ends[0][1], ends[1][1], strict=True):
        assert bare == watched
    assert ends[0] == ends[1]
    assert ends[0][0] == 7


@pytest.mark.parametrize(
    "script",
    [
        "printf out; printf err >&2; exit 3",
        "exit 130",
        "exit 255",
        "kill -TERM $$",
        "kill -KILL $$",
        "kill -SEGV $$",
        "exit 0",
    ],
)
def test_it_ends_as_the_job_ends(start: Start, script: str) -> None:
    bare, watched = both(start, "sh", "-c", script)
    assert (bare.code, bare.out, bare.err) == (watched.code, watched.out, watched.err)


def test_false_is_false(start: Start) -> None:
    ran = start("false").end()
    assert ran.code == 1
    assert ran.err.startswith("whyidle: nothing to judge: ")
    assert ran.err == ran.ours


def test_a_script_without_a_first_line(start: Start, tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("echo $1; exit 4", "utf-8")
    script.chmod(0o755)
    ran = start("./job", "x", options=("-q",)).end()
    assert (ran.code, ran.out, ran.err) == (4, "x\n", "")
    script.write_text("#!/no/such/interpreter\n", "utf-8")
    ran = start("./job").end()
    assert (ran.code, ran.out) == (126, "")
    assert ran.err == "whyidle: ./job: its interpreter does not exist\n"
    assert not ran.folder.exists()


def test_a_command_that_is_not_there(start: Start, tmp_path: Path) -> None:
    ran = start("no-such-command", "--x").end()
    assert (ran.code, ran.out, ran.err) == (127, "", "whyidle: no-such-command: command not found\n")
    (tmp_path / "train.py").write_text("", "utf-8")
    ran = start("train.py", "--lr", "1").end()
    assert ran.code == 127
    assert re.search(r"^hint: whyidle run -- python3? train.py --lr 1$", ran.err, re.MULTILINE)
    assert not ran.folder.exists()


# Names each signal; ends at SIGTERM. A signal may come while it writes, which print does not bear.
COUNTING = """
import os, signal, sys
names = "SIGINT SIGTERM SIGHUP SIGUSR1 SIGUSR2 SIGQUIT SIGXCPU SIGCONT".split()
def heard(number, frame):
    os.write(1, (signal.Signals(number).name + "\\n").encode())
    if number == signal.SIGTERM:
        sys.exit(9)
for name in names:
    signal.signal(getattr(signal, name), heard)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def test_what_is_sent_to_us_alone_reaches_the_job_once(start: Start) -> None:
    job = start(sys.executable, "-c", COUNTING)
    assert job.line() == "ready\n"
    for name in ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGQUIT", "SIGXCPU"):
        job.to_us(getattr(signal, name))
        assert job.line() == f"{name}\n"
    job.to_us(signal.SIGTERM)
    assert job.line() == "SIGTERM\n"
    ran = job.end()
    assert (ran.code, ran.out) == (9, "")
    assert ran.err == ran.ours


def test_a_job_that_does_not_handle_a_signal_dies_of_it_and_so_do_we(start: Start) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        job = start("sh", "-c", "echo ready; exec sleep 100", options=("-q",))
        assert job.line() == "ready\n"
        job.to_us(number)
        assert job.end().code == -number


def test_a_stopped_job_goes_on(start: Start) -> None:
    job = start("sh", "-c", "echo $$; read line < /dev/null; kill -STOP $$; echo on; exit 6", options=("-q",))
    pid = int(job.line())
    wait_for(lambda: state(pid) == "T")
    assert state(job.process.pid) != "T"  # who stopped it sees to it; the terminal did not
    os.kill(pid, signal.SIGCONT)
    assert job.line() == "on\n"
    assert job.end().code == 6


def test_if_we_are_killed_the_job_goes_on(start: Start, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("echo $$; until [ -e go ]; do sleep 0.05; done; echo done > done", "utf-8")
    job = start("sh", "job.sh")
    pid = int(job.line())
    job.to_us(signal.SIGKILL)
    assert job.process.wait(DEADLINE_S) == -signal.SIGKILL
    assert state(pid) != ""
    (tmp_path / "go").touch()
    wait_for((tmp_path / "done").exists)


def state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    return ""


class Terminal:
    """An interactive shell in a terminal of its own, as a person uses it."""

    def __init__(self, cwd: Path) -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.chdir(cwd)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**environment(), "PS1": "$ ", "TERM": "dumb"})
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self, pattern: str) -> str:
        """Wait until something is shown, and return what it was."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.shown)):
            assert select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))[0], self.shown
            self.shown += os.read(self.fd, 4096).decode()
        self.shown = self.shown[found.end() :]
        return found[0]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGHUP)  # as a terminal that is closed; the shell passes it on
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_at_a_terminal_the_job_has_the_keys(tmp_path: Path) -> None:
    """Ctrl-C reaches the job once, Ctrl-Z stops it as the shell expects, and what it dies of stops a script."""
    (tmp_path / "count.py").write_text(COUNTING, "utf-8")
    terminal = Terminal(tmp_path)
    try:
        terminal.type(f"{WHYIDLE} -q -- {sys.executable} count.py; echo code=$?\n")
        terminal.wait(r"ready\r\n")
        terminal.type("\x03")
        terminal.wait(r"SIGINT\r\n")
        terminal.type("\x1c")
        assert terminal.wait(r"SIG\w+\r\n") == "SIGQUIT\r\n"  # so the first was not heard twice
        terminal.type("\x1a")
        terminal.wait(r"Stopped[^\n]*\n")
        terminal.type("fg\n")
        terminal.wait(r"SIGCONT\r\n")  # the shell names the job before it hands it the terminal: too early for keys
        terminal.type("\x03")
        assert terminal.wait(r"SIG(?!CONT)\w+\r\n") == "SIGINT\r\n"
        terminal.type("\x1a")
        terminal.wait(r"Stopped[^\n]*\n")
        terminal.type("kill -TERM %1; fg\n")
        terminal.wait(r"SIGTERM\r\n")
        terminal.type(f"echo\n{WHYIDLE} -q -- sh -c 'echo up; sleep 100'; echo never\n")
        terminal.wait(r"\nup\r\n")
        terminal.type("\x03")
        terminal.wait(r"[$#] ")
        terminal.type("echo code=$?\n")
        shown = terminal.wait(r"code=(\d+)\r\n")
        assert "code=130" in shown
        terminal.type("exit\n")
    finally:
        terminal.close()


BROKEN = """
import sys
from whyidle.collect import collector
from whyidle.cli import main
class Broken(collector.Collector):
    def tick(self):
        raise RuntimeError("a counter broke")
collector.Collector = Broken
sys.exit(main(["run", *sys.argv[1:]]))
"""


def test_if_the_collector_breaks_the_job_goes_on(start: Start) -> None:
    job = start(sys.executable, "-c", BROKEN, "-q", "-o", "run", "sh", "-c", "echo on; exit 5", bare=True)
    ran = job.end()
    assert (ran.code, ran.out) == (5, "on\n")
    first = "whyidle: the recording has holes: it failed 1 time, first with RuntimeError: a counter broke"
    assert ran.err.startswith(first)
    assert "a counter broke" in (ran.node / "errors.txt").read_text("utf-8")


def test_it_blocks_signals_before_any_library_starts_a_thread() -> None:
    """A thread that does not block them could get them, and with them our end."""
    code = (
        "import whyidle.cli._verbs, whyidle.cli.run, whyidle.launch.process, os; print(*os.listdir('/proc/self/task'))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert len(ran.stdout.split()) == 1
