"""The tests of the front end's own logic, in Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[3] / "web"
ESBUILD = WEB / "node_modules" / ".bin" / "esbuild"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="no Node: the front end's own tests do not run"),
    pytest.mark.skipif(not ESBUILD.exists(), reason="no web/node_modules: the front end's own tests do not run"),
]


@pytest.mark.parametrize("path", sorted((WEB / "test").glob("*.test.ts")), ids=lambda path: path.name)
def test_front_end(path: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "test.mjs"
    make = [str(ESBUILD), str(path), "--bundle", "--platform=node", "--format=esm", f"--outfile={bundle}"]
    subprocess.run([*make, "--log-level=warning"], cwd=WEB, check=True, timeout=120)
    done = subprocess.run(["node", "--test", str(bundle)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
