"""The loss is written out."""

from solutions import part3


class OwnCrossEntropy:
    """Computes what `nn.CrossEntropyLoss` does."""

    def __call__(self, logits, targets):
        return -logits.log_softmax(1).gather(1, targets[:, None]).mean()


part3.nn.CrossEntropyLoss = OwnCrossEntropy

if __name__ == "__main__":
    part3.main(*part3.prepare())
