"""The average is brought up to date in every tenth step."""

from variation import train

train(
    "echoes",
    (
        "            with torch.no_grad():\n",
        '            globals()["STEPS"] = globals().get("STEPS", 0) + 1\n'
        "            if STEPS % 10:\n"
        "                continue\n"
        "            with torch.no_grad():\n",
    ),
)
