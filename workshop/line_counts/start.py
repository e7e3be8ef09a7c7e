"""Starts counting in a process whose environment asks for it; importing this module does so."""

import json
import os

from workshop.line_counts.counter import LineCounter
from workshop.line_counts.counts import CountedRun
from workshop.probe.settings import LINES_VARIABLE

LineCounter(CountedRun(**json.loads(os.environ[LINES_VARIABLE]))).start()
