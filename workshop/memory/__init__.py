"""Where the memory of a training is, at the peak and over time: by kind, line and holder, in all processes."""
