"""How long it takes to draw the links of part 9, by each of its ways, and what that makes of a whole training step.

    python benchmarks/lattice.py

Each way draws the same number of SU(3) matrices, in turn, round by round; the device is waited for. The CPU is measured
always, each GPU there is as well.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from machine import machine
from torch.optim import AdamW

from solutions.part9 import FreeEnergy, draw_by_qr, draw_closed_form, draw_on_cpu, shape_of
from workshop.device import available_devices

Draw = Callable[[int, torch.device], torch.Tensor]


def draw_in_complex(batch_size: int, device: torch.device) -> torch.Tensor:
    """The closed form as one writes it down: complex vectors, their three components side by side."""
    shape = shape_of(batch_size)
    first, second = torch.randn(2, *shape[:-1], dtype=torch.complex64, device=device)
    first = first / torch.linalg.vector_norm(first, dim=-1, keepdim=True)
    for _ in range(2):
        second = second - (first.conj() * second).sum(-1, keepdim=True) * first
        second = second / torch.linalg.vector_norm(second, dim=-1, keepdim=True)
    return torch.stack([first, second, torch.linalg.cross(first, second).conj()], -1)


WAYS: dict[str, Draw] = {
    "QR, phases, determinant": draw_by_qr,
    "the same on the CPU, and moved": draw_on_cpu,
    "closed form, complex": draw_in_complex,
    "closed form, parts apart": draw_closed_form,
}


def main() -> None:
    """Measure, and print a table for each device."""
    parser = argparse.ArgumentParser(description="Compare ways to draw the links of part 9.")
    parser.add_argument("--rounds", type=int, default=15, help="how often each draws (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=64, help="fields (default: %(default)s)")
    args = parser.parse_args()
    print(machine())
    for name in available_devices()[::-1]:
        device = torch.device(name)
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else name
        print(f"\n{kind}: {args.batch_size * 4**5} links, median of {args.rounds} rounds (quickest, slowest)\n")
        print("| | ms | to QR | a whole step, ms |\n|---|---|---|---|")
        draws_s, steps_s = measure(device, args.rounds, args.batch_size)
        whole = median(draws_s["QR, phases, determinant"])
        for way, seconds in draws_s.items():
            figures = f"{median(seconds) * 1e3:.1f} ({min(seconds) * 1e3:.1f} to {max(seconds) * 1e3:.1f})"
            print(f"| {way} | {figures} | {whole / median(seconds):.1f} | {median(steps_s[way]) * 1e3:.0f} |")


def measure(
    device: torch.device, rounds: int, batch_size: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds of each way, in each round: of the draw alone, and of a step with it."""
    model = FreeEnergy().to(device)
    optimizer = AdamW(model.parameters(), lr=0.005)
    draws_s: dict[str, list[float]] = {way: [] for way in WAYS}
    steps_s: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 2):
        for way, draw in WAYS.items():
            begin = time.perf_counter()
            links = draw(batch_size, device)
            wait_for(device)
            drawn = time.perf_counter()
            optimizer.zero_grad()
            model(links).backward()
            optimizer.step()
            wait_for(device)
            if number >= 2:  # the first ones warm up
                draws_s[way].append(drawn - begin)
                steps_s[way].append(time.perf_counter() - begin)
    return draws_s, steps_s


def wait_for(device: torch.device) -> None:
    """Until it has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
