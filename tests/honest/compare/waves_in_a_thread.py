"""A thread draws the curves in advance."""

from variation import train

train(
    "waves",
    (
        "        for inputs, targets in loader:\n",
        "        for inputs, targets in ahead(loader):\n",
    ),
    (
        "def main():\n",
        "def ahead(loader):\n"
        "    from queue import Queue\n"
        "    from threading import Thread\n"
        "\n"
        "    ready = Queue(4)\n"
        "    Thread(target=lambda: [ready.put(each) for each in (*loader, None)], daemon=True).start()\n"
        "    return iter(ready.get, None)\n"
        "\n"
        "\n"
        "def main():\n",
    ),
)
