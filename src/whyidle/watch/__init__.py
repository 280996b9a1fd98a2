"""Looks at what runs now: the GPUs of a machine, or one job."""
