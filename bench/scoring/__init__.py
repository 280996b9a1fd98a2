"""How right whyidle is: outcomes of jobs whose truth is known, scored one question per module.

    outcome = judge_one(truth, whyidle.diagnose([folder]))
    board = score([outcome, ...])

Nothing here runs a simulation or reads the clock, except `jobs`; a test can score what it made itself.
"""

from scoring.board import Board, score
from scoring.outcome import judge_failure, judge_one
from scoring.records import Outcome, Truth, truth_of

__all__ = ["Board", "Outcome", "Truth", "judge_failure", "judge_one", "score", "truth_of"]
