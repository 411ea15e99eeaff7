"""Rubrics: the checks of a submission with their points, and the submission's limits."""

from .model import BETWEEN, Rubric, RubricCheck, RubricLayer, RubricLimits, Show, Timing, changed, once
from .reading import as_dict, default, default_text, of_dict, parse, read

__all__ = ["BETWEEN", "Rubric", "RubricCheck", "RubricLayer", "RubricLimits", "Show", "Timing", "as_dict", "changed",
           "default", "default_text", "of_dict", "once", "parse", "read"]  # fmt: skip
