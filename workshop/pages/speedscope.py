"""Writes stacks in speedscope's file format: https://www.speedscope.app/file-format-schema.json."""

import json
from collections import defaultdict

from workshop.profiles.stacks import Frame, Recording


def speedscope(recording: Recording, title: str) -> str:
    """Return the text of a file with a profile for each process and thread, the busiest first; weights are samples."""
    frames: dict[Frame, int] = {}
    samples: dict[str, list[list[int]]] = defaultdict(list)
    weights: dict[str, list[int]] = defaultdict(list)
    for stack in recording.stacks:
        name = ", ".join(str(part) for part in (*stack.processes[-1:], stack.thread) if part) or title
        samples[name].append([frames.setdefault(frame, len(frames)) for frame in stack.frames])
        weights[name].append(stack.samples)
    profiles = [
        {
            "type": "sampled",
            "name": name,
            "unit": "none",
            "startValue": 0,
            "endValue": sum(weights[name]),
            "samples": samples[name],
            "weights": weights[name],
        }
        for name in sorted(samples, key=lambda name: (-sum(weights[name]), name))
    ]
    shared = [
        {"name": frame.name}
        | ({"file": frame.path} if frame.path else {})
        | ({"line": frame.line} if frame.line else {})
        for frame in frames
    ]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "profiling-workshop",
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": shared},
            "profiles": profiles,
        },
        separators=(",", ":"),
    )
