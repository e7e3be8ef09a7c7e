"""Module.compile, which changes the model itself."""

from solutions import part3

resnet18 = part3.resnet18


def compiled(**options):
    model = resnet18(**options)
    model.compile()
    return model


part3.resnet18 = compiled

if __name__ == "__main__":
    part3.main(*part3.prepare())
