"""What --fix and --diff do with the files of a lint."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from whyidle.lint.batch import Library
from whyidle.lint.files import File
from whyidle.lint.findings import asked, linted
from whyidle.lint.settings import Settings
from whyidle.lint.source import Source, Unread
from whyidle.model.finding import Report
