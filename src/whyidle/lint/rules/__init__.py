"""Checks: one file per problem, a folder per family."""
