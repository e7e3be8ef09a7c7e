"""What a thread sleeps is counted, and no time passes for a sleeper while its process is stopped."""

import os
import signal
import subprocess
import sys
import time

SLEEPS = """
import time
from workshop.probe.photo_reads import watch_sleep

watch_sleep()
print("ready", flush=True)
begin = time.monotonic()
time.sleep(0.5)
print(time.monotonic() - begin)
"""


def test_a_sleeper_that_was_stopped_sleeps_on() -> None:
    """It slept for a tenth of a second before, so that it must sleep for four tenths after."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    process.send_signal(signal.SIGCONT)
    slept_s = float(process.stdout.readline())
    assert process.wait() == 0
    assert slept_s > 1.2, "and 1.1 if time had passed"
