"""Distil a wide convolutional teacher into a smaller student on synthetic glyph pictures."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw


def draw_glyphs(count, size, seed):
    rng = np.random.default_rng(seed)
    images = np.empty((count, 1, size, size), dtype=np.float32)
    labels = rng.integers(0, 10, count)
    for i, label in enumerate(labels):
        canvas = Image.new("L", (size, size), 0)
        pen = ImageDraw.Draw(canvas)
        x, y = rng.integers(4, size - 16, 2)
        pen.text((int(x), int(y)), str(label), fill=int(rng.integers(120, 256)))
        canvas = canvas.rotate(float(rng.uniform(-15, 15)))
        images[i, 0] = np.asarray(canvas, dtype=np.float32) / 255.0
    images += rng.normal(0, 0.05, images.shape).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels)


def conv_block(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class GlyphNet(nn.Module):
    def __init__(self, width, depth, classes=10):
        super().__init__()
        blocks = [conv_block(1, width), conv_block(width, 2 * width, stride=2)]
        blocks += [conv_block(2 * width, 2 * width) for _ in range(depth)]
        blocks += [conv_block(2 * width, 4 * width, stride=2)]
        self.features = nn.Sequential(*blocks)
        self.classifier = nn.Linear(4 * width, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


def distillation_loss(student_logits, teacher_logits, labels, temperature, alpha):
    soft = (
        F.kl_div(
            F.log_softmax(student_logits / temperature, dim=1),
            F.softmax(teacher_logits / temperature, dim=1),
            reduction="batchmean",
        )
        * temperature**2
    )
    hard = F.cross_entropy(student_logits, labels)
    return alpha * soft + (1 - alpha) * hard


def train_one_epoch(student, teacher, optimizer, images, labels, args):
    student.train()
    teacher.eval()
    running, correct = 0.0, 0
    order = torch.randperm(len(images))
    for idx in order.split(args.batch_size):
        batch, target = images[idx], labels[idx]
        teacher_logits = teacher(batch)
        student_logits = student(batch)
        loss = distillation_loss(student_logits, teacher_logits, target, args.temperature, args.alpha)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() * len(idx)
        correct += (student_logits.argmax(1) == target).sum().item()
    return running / len(images), correct / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--teacher-weights", default=None)
    args = parser.parse_args()

    torch.manual_seed(0)
    images, labels = draw_glyphs(640, 32, seed=0)
    test_images, test_labels = draw_glyphs(128, 32, seed=1)

    teacher = GlyphNet(width=24, depth=2)
    if args.teacher_weights:
        teacher.load_state_dict(torch.load(args.teacher_weights))
    student = GlyphNet(width=16, depth=2)
    optimizer = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=0.9, nesterov=True)

    for epoch in range(args.epochs):
        loss, acc = train_one_epoch(student, teacher, optimizer, images, labels, args)
        student.eval()
        with torch.no_grad():
            test_acc = (student(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"epoch {epoch}: loss={loss:.4f} acc={acc:.3f} test={test_acc:.3f}", flush=True)


if __name__ == "__main__":
    main()
