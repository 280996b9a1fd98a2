"""`python -m whyidle` is `whyidle`."""

from __future__ import annotations

import sys

from whyidle.cli import main

sys.exit(main())
