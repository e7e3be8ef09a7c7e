"""The frames of all sounds are computed at once, and all averages in one call."""

from variation import train

train(
    "echoes",
    (
        "        found = []\n"
        "        for sound in sounds:\n"
        "            frames = [sound[first : first + 64] for first in range(0, len(sound) - 63, 16)]\n"
        "            found.append(torch.stack([(torch.fft.rfft(frame).abs() + 0.1).log() for frame in frames], 1))\n"
        "        return torch.stack(found)\n",
        "        return (torch.fft.rfft(sounds.unfold(1, 64, 16)).abs() + 0.1).log().transpose(1, 2)\n",
    ),
    (
        "                for slow, fast in zip(average.parameters(), model.parameters(), strict=False):\n"
        "                    slow.lerp_(fast, 0.05)\n",
        "                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.05)\n",
    ),
)
