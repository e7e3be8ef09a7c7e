"""Reports in the formats that others read: one module for each, and all of them know the same small result."""

from collections.abc import Callable, Mapping

from workshop.reports import github, markdown, sarif
from workshop.reports.report import Report

FORMATS: Mapping[str, Callable[[Report], str]] = {
    "github": github.render,
    "markdown": markdown.render,
    "sarif": sarif.render,
}
"""The function that writes each format: for the log of a workflow, for a person, for code scanning."""
