"""`watch_training` for frameworks that call back: a file each, which imports its framework."""
