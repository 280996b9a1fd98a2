"""`whyidle watch --pid`: one running job, looked at from outside for some seconds, and what it waits for."""
