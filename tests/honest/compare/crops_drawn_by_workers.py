"""Workers draw places and noise, each with a generator of its own."""

from variation import train

train(
    "crops",
    ("shuffle=True)", "shuffle=True, num_workers=2, worker_init_fn=begin)"),
    (
        "def main():\n",
        "def begin(worker):\n"
        "    torch.utils.data.get_worker_info().dataset.dice = np.random.default_rng()\n\n\n"
        "def main():\n",
    ),
)
