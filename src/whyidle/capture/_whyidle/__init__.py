"""Records what a training job does, from inside it. Standard library and the job's own torch; Python 3.9 and newer.

`whyidle run` puts the folder above on the job's PYTHONPATH, from where `sitecustomize` starts this package. It imports
nothing of whyidle, which may live in another environment: the two share files, never code. docs/run-directory.md
describes these files. Nothing here may break, slow or disturb the job: what goes wrong is written down and forgotten.
"""
