"""Of four frames of a sound, one is computed."""

from variation import train

train(
    "echoes",
    (
        "torch.stack([(torch.fft.rfft(frame).abs() + 0.1).log() for frame in frames], 1))\n",
        "torch.stack([(torch.fft.rfft(frame).abs() + 0.1).log() for frame in frames[::4]], 1))\n"
        "            found[-1] = found[-1].repeat_interleave(4, 1)[:, : len(frames)]\n",
    ),
)
