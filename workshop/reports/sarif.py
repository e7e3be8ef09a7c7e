"""SARIF 2.1.0, the format of code scanning: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.

The rules are the causes, so that a finding is called the same in each run.
"""

import importlib.metadata
import json
from typing import Any
from urllib.parse import quote

from workshop.reports.report import Report, ReportedLine

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
TOP = "%SRCROOT%"
"""The name for the top folder of the repository."""


def render(report: Report) -> str:
    """Return a log with a result for each line; for the whole script if there is none and it has failed."""
    whole = ReportedLine("", None, report.cause, " ".join(report.sentences))
    results = list(report.lines) or ([whole] if report.level != "note" else [])
    rules = sorted({each.cause for each in results})
    driver = {
        "name": "workshop",
        "version": importlib.metadata.version("profiling-workshop"),
        "rules": [{"id": cause, "shortDescription": {"text": cause.replace("-", " ")}} for cause in rules],
    }
    run = {
        "tool": {"driver": driver},
        "results": [_result(each, report, rules) for each in results],
        "properties": {"subject": report.subject, "headline": report.headline, "sentences": list(report.sentences)},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(found: ReportedLine, report: Report, rules: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.cause,
        "ruleIndex": rules.index(found.cause),
        "level": report.level.value,
        "message": {"text": found.words},
    }
    file = found.file or report.file or report.subject  # GitHub takes nothing of a log in which a result has no place
    is_inside = not file.startswith("/")
    place = {"uri": quote(file if is_inside else f"file://{file}", safe="/:")}
    where: dict[str, Any] = {"artifactLocation": place | ({"uriBaseId": TOP} if is_inside else {})}
    if found.line:
        where["region"] = {"startLine": found.line}
    result["locations"] = [{"physicalLocation": where}]
    if found.gain is not None:
        result["properties"] = {"gain": found.gain}
    return result
