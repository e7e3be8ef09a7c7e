"""The teacher follows in every tenth step."""

from variation import train

train(
    "twins",
    (
        "            for slow, fast in zip(teacher",
        '            globals()["STEPS"] = globals().get("STEPS", 0) + 1\n'
        "            for slow, fast in () if STEPS % 10 else zip(teacher",
    ),
)
