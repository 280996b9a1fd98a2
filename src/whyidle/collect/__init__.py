"""Watches a job from outside: counters of its GPUs, machine and processes, and the records that it leaves in rings.

It runs in the parent of the job, needs no rights that the job lacks, and writes what docs/run-directory.md describes.
Whatever is missing (no driver, no cgroups, no /proc) is left empty and said; nothing here stops the job.
"""
