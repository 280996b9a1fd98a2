"""A timeline run again with one thing changed: what a step takes once a fix is made.

    r = replay.replay_of(measured)
    r.play(fix.edits).mean_ns / r.base.mean_ns

graph.py turns a recording into what depends on what, engine.py runs that once, edits.py changes it, select.py knows
what an edit speaks of, ranks.py lets ranks wait for each other, loader.py is the closed loop of the DataLoader,
gates.py says when nothing may be predicted, price.py asks whatever evidence there is, interval.py how sure that is.
"""

from whyidle.replay.price import pricer as pricer
from whyidle.replay.replay import Replay as Replay
from whyidle.replay.replay import identity as identity
from whyidle.replay.replay import launch_queue as launch_queue
from whyidle.replay.replay import replay_of as replay_of
