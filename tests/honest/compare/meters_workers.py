"""Two workers load."""

from variation import train

train("meters", ("shuffle=True)", "shuffle=True, num_workers=2)"))
