"""The bundle is what web/ builds, and it keeps the licences of what is in it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import whyidle
from whyidle.render.html.page import bundled

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
BUNDLE = ROOT / "src" / "whyidle" / "render" / "html" / "bundle"
STALE = "web/ was changed and not built: run `npm ci && npm run build` in web/, and commit the bundle"


def sources() -> str:
    """Return what web/build.mjs writes as sources.sha256."""
    files = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    files += [WEB / name for name in ("build.mjs", "package-lock.json", "tsconfig.json")]
    digest = hashlib.sha256()
    for name in sorted(path.relative_to(WEB).as_posix() for path in files):
        digest.update(name.encode() + b"\0" + (WEB / name).read_bytes() + b"\0")
    return digest.hexdigest()


def libraries() -> list[tuple[str, str]]:
    """Return what is bundled, with its version, as the notice in the script says."""
    return re.findall(r"^(\S+) (\d\S*) \(([^)]+)\)$", bundled("LICENSES.txt"), re.MULTILINE)


def test_it_is_of_these_sources() -> None:
    assert (BUNDLE / "sources.sha256").read_text("utf-8").strip() == sources(), STALE


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node: the bundle is not built again")
@pytest.mark.skipif(not (WEB / "node_modules").is_dir(), reason="no web/node_modules: the bundle is not built again")
def test_it_is_what_a_build_makes(tmp_path: Path) -> None:
    built = subprocess.run(
        ["node", "build.mjs", str(tmp_path)], cwd=WEB, capture_output=True, text=True, timeout=120, check=False
    )
    assert built.returncode == 0, built.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in BUNDLE.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (BUNDLE / path.name).read_bytes(), f"{path.name}: {STALE}"


def test_licences_are_kept_whole() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
    found = libraries()
    assert "preact" in {name for name, _, _ in found}
    for name, version, licence in found:
        locked = lock[f"node_modules/{name}"]
        assert (version, licence) == (locked["version"], locked["license"])
        assert not locked.get("dev"), f"{name} is a tool, and is in the bundle"
    assert bundled("LICENSES.txt").count("Permission is hereby granted, free of charge") == len(found)
    assert bundled("LICENSES.txt").count("Copyright (c)") >= len(found)


def test_the_page_itself_has_them() -> None:
    html = whyidle.render(whyidle.diagnose(ROOT / "tests" / "runs" / "healthy"), "html")
    for text in bundled("LICENSES.txt").split("-" * 72):
        assert text.strip() in html


def test_what_is_installed_is_named_by_its_sum_and_by_no_host() -> None:
    text = (WEB / "package-lock.json").read_text("utf-8")
    assert "://" not in text
    packages = json.loads(text)["packages"]
    assert all(package.get("integrity") for name, package in packages.items() if name)


def test_the_script_is_ascii_and_cannot_end_its_element() -> None:
    assert bundled("report.js").isascii()
    assert "</script" not in bundled("report.js").lower()
    assert "<!--" not in bundled("report.js")
    assert "</style" not in bundled("report.css").lower()
