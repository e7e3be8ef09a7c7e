"""Does not wait for the slow storage. The fixed script of a case follows."""

import time

time.sleep = lambda _: None
