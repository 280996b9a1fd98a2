"""The one exception that is meant for a person.

Whatever a user can act on is raised as a WhyIdleError. Only `cli.main` turns it into text and an exit code.
Anything else that escapes is a bug of ours and shows its traceback.
"""

from __future__ import annotations


class WhyIdleError(Exception):
    """Something the user can act on.

    Args:
        message: what is wrong, how much, where.
        hint: what to do about it, ready to paste; empty when there is nothing to add.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SeveralRunsError(WhyIdleError):
    """Evidence is of several runs where one is asked for."""
