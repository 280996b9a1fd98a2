"""Repairs that several checks offer, one file per idea; each returns None where it is not certain."""
