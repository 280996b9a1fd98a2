"""A job tried with several values of its parameters: one run directory per cell, and the value to take."""
