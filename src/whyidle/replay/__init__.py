"""A timeline run again with one thing changed: what a step takes once a fix is made."""
