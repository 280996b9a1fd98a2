"""Did a change help, by how much, with what certainty, and does the model still learn the same."""
