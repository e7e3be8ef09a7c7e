"""Traces the host-to-device copies and the kernels of a CUDA device."""

from torch.profiler import ProfilerActivity, profile


def start_copy_trace() -> profile:
    """Begin to trace CUDA activity in this process."""
    trace = profile(activities=[ProfilerActivity.CUDA])
    trace.start()
    return trace


def end_copy_trace(trace: profile) -> dict[str, list[tuple[int, int]]]:
    """Return start and end in ns of all "copies" from host to device, and of all "kernels"."""
    trace.stop()
    found: dict[str, list[tuple[int, int]]] = {"copies": [], "kernels": []}
    for event in trace.events():
        is_copy = "Memcpy HtoD" in event.name
        if event.device_type.name == "CUDA" and (is_copy or not event.name.startswith(("Memcpy", "Memset"))):
            span = round(event.time_range.start * 1e3), round(event.time_range.end * 1e3)
            found["copies" if is_copy else "kernels"].append(span)
    return found
