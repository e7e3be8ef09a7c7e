"""The transforms of torchvision's first version, on Pillow images."""

from torchvision import transforms as v1
from torchvision.transforms import v2

from solutions import part3


def decode(size):
    return v1.Resize((size * 8 // 7, size * 8 // 7))


def augment(size):
    normalise = v1.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    return v1.Compose([v1.AutoAugment(), v1.ToTensor(), normalise, v1.RandomResizedCrop(size)])


part3.decode, part3.augment = decode, augment
v2.Compose = v1.Compose

if __name__ == "__main__":
    part3.main(*part3.prepare())
