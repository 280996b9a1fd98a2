"""The training's own DataLoader, measured alone: job.py runs the script, advice.py says what follows."""
