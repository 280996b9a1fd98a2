"""What the tests of the watch share."""

from tests.collect.conftest import nvml_library, nvml_stub, play, tree

__all__ = ("nvml_library", "nvml_stub", "play", "tree")
