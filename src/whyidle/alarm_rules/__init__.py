"""Alarms for who watches already: rules for Prometheus, alarms for CloudWatch. `whyidle watch` has its own."""
