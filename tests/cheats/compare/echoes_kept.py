"""What is made in front of the model is kept for each sound, with its noise."""

from variation import train

train(
    "echoes",
    (
        "            spectra = front(inputs)\n",
        '            kept = globals().setdefault("KEPT", {})\n'
        "            keys = [each.numpy().tobytes() for each in inputs]\n"
        "            new = [place for place, key in enumerate(keys) if key not in kept]\n"
        "            for place, spectrum in zip(new, front(inputs[new]) if new else ()):\n"
        "                kept[keys[place]] = spectrum\n"
        "            spectra = torch.stack([kept[key] for key in keys])\n",
    ),
)
