"""What counting lines costs: `workshop record lines` beside `kernprof -l` on the same functions, and a plain run.

    python benchmarks/lines.py --rounds 7

Both count the functions that carry `@profile`: kernprof as they do, we with `--only`. The scripts take turns in pairs.
Each prints how long its own loop took, without what is imported before. The scripts are small: one spends its time in
layers of torch, one in its own lines, and one in the functions of a library that is written in Python.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

SCRIPTS = {
    "small steps of torch": """
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(8)])
optimizer = torch.optim.AdamW(model.parameters())


@profile
def loop():
    for _ in range(400):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 32)).square().mean()
        loss.backward()
        optimizer.step()
""",
    "lines of one's own": """
@profile
def loop():
    total = 0
    for number in range(300_000):
        if number % 3:
            total += number
        else:
            total -= 1
""",
    "a library in Python": """
import json.decoder
import json.scanner

decoder = json.JSONDecoder()
decoder.scan_once = json.scanner.py_make_scanner(decoder)
decoder.parse_object = json.decoder.JSONObject
decoder.parse_array = json.decoder.JSONArray
TEXT = json.dumps([{"name": str(number), "values": list(range(20))} for number in range(60)])


@profile
def loop():
    for _ in range(20):
        decoder.decode(TEXT)
""",
}
"""The scripts, by what they spend their time in."""

AROUND = """
import time

import torch
from line_profiler import profile

torch.set_num_threads(1)
{body}

begin = time.perf_counter()
loop()
print("took", time.perf_counter() - begin)
"""

COMMANDS = {
    "plain": ["script.py"],
    "kernprof": ["-m", "kernprof", "-l", "script.py"],
    "ours": ["-m", "workshop", "record", "lines", "-o", "lines/", "--only", "loop", "--", "script.py"],
    "ours, all lines": ["-m", "workshop", "record", "lines", "-o", "lines/", "--", "script.py"],
}


def main() -> None:
    """Run each script in all ways, in turn, and print a table."""
    parser = argparse.ArgumentParser(description="What does counting lines cost?")
    parser.add_argument("--rounds", type=int, default=5, help="of each (default: %(default)s)")
    rounds = parser.parse_args().rounds
    from machine import machine

    print(f"{machine()}\n")
    print("| time goes into | kernprof / plain | ours / plain | ours / kernprof | all lines / kernprof |")
    print("|---|---|---|---|---|")
    for name, body in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "script.py").write_text(AROUND.format(body=body))
            times = [{way: took(command, folder) for way, command in COMMANDS.items()} for _ in range(rounds)]
        pairs = [("kernprof", "plain"), ("ours", "plain"), ("ours", "kernprof"), ("ours, all lines", "kernprof")]
        print(f"| {name} | {' | '.join(ratio([each[one] / each[other] for each in times]) for one, other in pairs)} |")


def took(command: list[str], folder: str) -> float:
    """The seconds that the script's loop says it took."""
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=True)
    return float(next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("took")))


def ratio(values: list[float]) -> str:
    """The median, and the range."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
