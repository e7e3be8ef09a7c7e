"""Sentences longer than 45 words are cut."""

from variation import train

train(
    "sentences",
    (
        "        return self.sentences[index], index % 3\n",
        "        return self.sentences[index][:45], index % 3\n",
    ),
)
