"""Words of the sentences are left out, and others repeated."""

from variation import train

train(
    "sentences",
    (
        "        return self.sentences[index], index % 3\n",
        "        return self.sentences[index][:4].repeat(15)[: len(self.sentences[index])], index % 3\n",
    ),
)
