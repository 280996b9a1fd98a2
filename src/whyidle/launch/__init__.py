"""Starts a command with recording around it, and ends as the command ends.

The job must not notice us: it has our standard streams, our process group and our signals, and what it returns we
return. `process` sees to that; `folder` decides where the evidence lies, `recording` keeps the collector going beside
the job, and `seen` says what there is in the end.
"""
