"""Keeps watch over the GPUs of a machine: samples, the verdict of the last minutes, alarms, and who is told.

Nothing is recorded and no job is touched. The driver is asked once per interval; all else happens at a low rate.
"""
