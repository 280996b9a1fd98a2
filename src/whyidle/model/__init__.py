"""The nouns. Everything else is a function from one of these to another."""
