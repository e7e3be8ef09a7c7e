"""Forty public training scripts, each at a named commit, with its arguments and the data that is made for it.

Their repositories are not part of the project. None of their code is edited: what a script needs to be short, and to
run without a GPU and a network, is in its arguments, its environment and its data. Beside the packages of the project
with `[test]`, they need these:

    pip install torchaudio torch_geometric timm diffusers datasets evaluate peft trl gymnasium==0.29.1 pytorch-ignite \\
        einops einx loguru torch_einops_utils matplotlib scikit-learn tensorboard tensorboardX tyro wandb requests six
"""

import gzip
import json
import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

COMMITS = {
    "Diego999/pyGAT": "3664f2dc90cbf971564c0bf186dc794f12446d0c",
    "Lightning-AI/pytorch-lightning": "7f0c3436cd3f6ad3753125672024fc415cbcb414",
    "eriklindernoren/PyTorch-GAN": "36d3c77e5ff20ebe0aeefd322326a134a279b93e",
    "facebookresearch/dlrm": "090956ee2319ddd349a42232958aefccfe3f7b0a",
    "huggingface/accelerate": "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83",
    "huggingface/diffusers": "58eb52c0803ea9af3abec60841c2a093bdf1f951",
    "huggingface/pytorch-image-models": "aa4b5850c1543fa488abf260f18390eda46cf85d",
    "karpathy/minGPT": "37baab71b9abea1b76ab957409a1cc2fbfba8a26",
    "karpathy/nanoGPT": "3adf61e154c3fe3fca428ad6bc3818b27a3b8291",
    "locuslab/TCN": "2f8c2b817050206397458dfd1f5a25ce8a32fe65",
    "lucidrains/x-transformers": "9252ed7838021ee61e6c5be0930b3a9a88efdf06",
    "milesial/Pytorch-UNet": "21d7850f2af30a9695bbeea75f3136aa538cfc4a",
    "pyg-team/pytorch_geometric": "5c6461b2305ad068a6d61165b3c55852a11aaa41",
    "pytorch/examples": "77f55b912142e11fcfdf5b530231fb9c52f181e8",
    "pytorch/ignite": "de08e799cfb55a6cf4aa778575d6bad725385453",
    "tugstugi/pytorch-speech-commands": "36f3cd9e0d2b2d50cf4b023c9af1544fdfeeb886",
    "vwxyzjn/cleanrl": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    "yunjey/pytorch-tutorial": "0500d3df5a2a8080ccfccbc00aca0eacc21818db",
}


def no_data(folder: Path) -> None:
    """Make nothing: the script draws its own data."""


@dataclass(frozen=True)
class PublicScript:
    """A training script of somebody else, and how it is run here."""

    name: str
    kind: str
    repository: str
    script: str
    """Its path in the repository."""
    arguments: str = ""
    data: Callable[[Path], None] = no_data
    """Makes the data, given the folder in which the script runs."""
    folder: str | None = None
    """The folder in which it runs, in the repository; by default its own."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables; `{root}` stands for the folder of the repository."""
    launcher: str = ""
    """What starts it, as `torchrun --nproc_per_node=2`; by default Python."""

    @property
    def commit(self) -> str:
        """The commit of its repository."""
        return COMMITS[self.repository]


def mnist(place: str, train: int = 6000, test: int = 500) -> Callable[[Path], None]:
    """Make MNIST's four files of random digits, as torchvision reads them."""

    def make(folder: Path) -> None:
        raw = folder / place / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(0)
        for name, count in (("train", train), ("t10k", test)):
            images, labels = draw.integers(0, 256, (count, 28, 28)), draw.integers(0, 10, count)
            header = struct.pack(">IIII", 2051, count, 28, 28)
            (raw / f"{name}-images-idx3-ubyte").write_bytes(header + images.astype(np.uint8).tobytes())
            header = struct.pack(">II", 2049, count)
            (raw / f"{name}-labels-idx1-ubyte").write_bytes(header + labels.astype(np.uint8).tobytes())

    return make


def pictures(places: Iterable[str], count: int = 64, side: int = 96, ending: str = "jpg") -> Callable[[Path], None]:
    """Draw pictures of noise into each of the folders."""

    def make(folder: Path) -> None:
        draw = np.random.default_rng(0)
        for place in places:
            (folder / place).mkdir(parents=True, exist_ok=True)
            for number in range(count):
                noise = draw.integers(0, 256, (side, side, 3)).astype(np.uint8)
                Image.fromarray(noise).save(folder / place / f"{Path(place).name}_{number}.{ending}")

    return make


def words(*places: str, lines: int = 5000) -> Callable[[Path], None]:
    """Write files of lines of words, as WikiText is split."""

    def make(folder: Path) -> None:
        draw = random.Random(0)
        vocabulary = ["".join(draw.choices("abcdefghij", k=draw.randint(2, 8))) for _ in range(2000)]
        for place in places:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            text = "\n".join(" ".join(draw.choices(vocabulary, k=20)) for _ in range(lines))
            (folder / place).write_text(text)

    return make


def cora(place: str) -> Callable[[Path], None]:
    """Write a graph of papers and their citations, as large as Cora, in its two files."""

    def make(folder: Path) -> None:
        (folder / place).mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(0)
        papers, topics = 2708, [f"Topic_{number}" for number in range(7)]
        words = (draw.random((papers, 1433)) < 0.02).astype(int).astype(str)
        rows = ["\t".join([str(paper), *words[paper], topics[paper % 7]]) for paper in range(papers)]
        (folder / place / "cora.content").write_text("\n".join(rows) + "\n")
        cited = draw.integers(0, papers, (5429, 2))
        (folder / place / "cora.cites").write_text("".join(f"{one}\t{other}\n" for one, other in cited))

    return make


def sine_waves(folder: Path) -> None:
    """Write the waves that the repository's other script would draw."""
    import torch

    shifts = np.random.default_rng(0).integers(-80, 80, (20, 1))
    torch.save(np.sin((np.arange(200) + shifts) / 20.0), folder / "traindata.pt")


def shakespeare(folder: Path) -> None:
    """Write a text as tokens of two bytes, as nanoGPT's preparation does."""
    place = folder / "data" / "shakespeare_char"
    place.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for name in ("train", "val"):
        draw.integers(0, 65, 100_000).astype(np.uint16).tofile(place / f"{name}.bin")


SCRIPTS = [
    PublicScript("mnist", "vision, plain", "pytorch/examples", "mnist/main.py", data=mnist("../data")),
    PublicScript("hogwild", "vision, processes of its own", "pytorch/examples", "mnist_hogwild/main.py",
                 "--num-processes 2", mnist("../data")),
    PublicScript("mnist_rnn", "vision, LSTM", "pytorch/examples", "mnist_rnn/main.py", data=mnist("../data")),
    PublicScript("forward_forward", "vision, an optimizer for each layer", "pytorch/examples",
                 "mnist_forward_forward/main.py", "--train_size 5000 --test_size 500", mnist("data", 5000)),
    PublicScript("word_language_model", "language, no optimizer", "pytorch/examples", "word_language_model/main.py",
                 "--model LSTM", words(*(f"data/wikitext-2/{each}.txt" for each in ("train", "valid", "test")))),
    PublicScript("word_transformer", "language, AdamW by option", "pytorch/examples", "word_language_model/main.py",
                 "--model Transformer --use-optimizer --lr 0.001 --bptt 16",
                 words(*(f"data/wikitext-2/{each}.txt" for each in ("train", "valid", "test")))),
    PublicScript("dcgan", "GAN", "pytorch/examples", "dcgan/main.py", "--dataset fake --batchSize 8 --ngf 16 --ndf 16 --outf ."),
    PublicScript("vae", "vision, VAE", "pytorch/examples", "vae/main.py", "--epochs 1000", mnist("../data")),
    PublicScript("siamese", "vision, pairs", "pytorch/examples", "siamese_network/main.py", data=mnist("../data")),
    PublicScript("sine_lbfgs", "series, LBFGS with closures", "pytorch/examples", "time_sequence_prediction/train.py",
                 data=sine_waves, environment={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}),
    PublicScript("super_resolution", "vision, images from disk", "pytorch/examples", "super_resolution/main.py",
                 "--upscale_factor 3 --batchSize 4 --nEpochs 30 --lr 0.001",
                 pictures(["dataset/BSDS300/images/train", "dataset/BSDS300/images/test"], side=320)),
    PublicScript("imagenet", "vision, made data", "pytorch/examples", "imagenet/main.py",
                 "--dummy -a resnet18 -b 8 -j 2 --epochs 1"),
    PublicScript("gat", "graphs, whole graph a step", "pytorch/examples", "gat/main.py", data=cora("cora")),
    PublicScript("pyGAT", "graphs, whole graph a step", "Diego999/pyGAT", "train.py", "--hidden 4 --nb_heads 2",
                 cora("data/cora")),
    PublicScript("reinforce", "RL, episodes that grow", "pytorch/examples", "reinforcement_learning/reinforce.py"),
    PublicScript("actor_critic", "RL, episodes that grow", "pytorch/examples",
                 "reinforcement_learning/actor_critic.py"),
    PublicScript("minGPT", "language, a trainer of its own", "karpathy/minGPT", "projects/adder/adder.py",
                 "--trainer.device=cpu", environment={"PYTHONPATH": "{root}"}),
    PublicScript("nanoGPT", "language, plain", "karpathy/nanoGPT", "train.py", "--device=cpu --compile=False "
                 "--dataset=shakespeare_char --gradient_accumulation_steps=4 --batch_size=4 --block_size=64 "
                 "--n_layer=4 --n_head=4 --n_embd=128 --eval_iters=5 --dtype=float32", shakespeare),
    PublicScript("nanoGPT_compile", "language, torch.compile", "karpathy/nanoGPT", "train.py", "--device=cpu "
                 "--compile=True --dataset=shakespeare_char --gradient_accumulation_steps=1 --batch_size=4 "
                 "--block_size=64 --n_layer=2 --n_head=4 --n_embd=128 --eval_iters=5 --dtype=float32", shakespeare),
    PublicScript("cleanrl_dqn", "RL, replay", "vwxyzjn/cleanrl", "cleanrl/dqn.py", "--learning-starts 1000",
                 environment={"PYTHONPATH": "{root}"}),
    PublicScript("cleanrl_ppo", "RL, rollouts", "vwxyzjn/cleanrl", "cleanrl/ppo.py"),
    PublicScript("cleanrl_sac", "RL, three optimizers", "vwxyzjn/cleanrl", "cleanrl/sac_continuous_action.py",
                 "--env-id Pendulum-v1 --learning-starts 500", environment={"PYTHONPATH": "{root}"}),
    PublicScript("gan", "GAN", "eriklindernoren/PyTorch-GAN", "implementations/gan/gan.py", "",
                 mnist("../../data/mnist")),
    PublicScript("wgan_gp", "GAN, double backward", "eriklindernoren/PyTorch-GAN", "implementations/wgan_gp/wgan_gp.py",
                 data=mnist("../../data/mnist")),
    PublicScript("cyclegan", "GAN, images from disk", "eriklindernoren/PyTorch-GAN",
                 "implementations/cyclegan/cyclegan.py", "--dataset_name made --img_height 32 --img_width 32 "
                 "--n_residual_blocks 2 --n_cpu 2",
                 pictures([f"../../data/made/{split}/{side}" for split in ("train", "test") for side in "AB"])),
    PublicScript("dlrm", "recommender", "facebookresearch/dlrm", "dlrm_s_pytorch.py",
                 "--data-generation=random --mini-batch-size=128 --num-batches=100000 --data-size=100000000 "
                 "--arch-embedding-size=1000-1000-1000 --arch-sparse-feature-size=16 --arch-mlp-bot=13-64-16 "
                 "--arch-mlp-top=64-32-1 --print-freq=100"),
    PublicScript("timm", "vision, timm", "huggingface/pytorch-image-models", "train.py",
                 "--data-dir made --model resnet18 --img-size 64 -b 8 --num-classes 2 --workers 2 --device cpu --epochs 3",
                 pictures([f"made/{split}/{name}" for split in ("train", "val") for name in ("one", "two")], 128)),
    PublicScript("timm_accumulate", "vision, timm, accumulated gradients", "huggingface/pytorch-image-models", "train.py",
                 "--data-dir made --model vit_tiny_patch16_224 --img-size 64 -b 4 --grad-accum-steps 4 --num-classes 2 "
                 "--workers 2 --device cpu --epochs 3 --mixup 0.2 --model-ema",
                 pictures([f"made/{split}/{name}" for split in ("train", "val") for name in ("one", "two")], 128)),
    PublicScript("lightning_transformer", "language, Lightning", "Lightning-AI/pytorch-lightning",
                 "examples/pytorch/basics/transformer.py", data=words("data/wikitext-2.txt", lines=2000)),
    PublicScript("lightning_dqn", "RL, Lightning", "Lightning-AI/pytorch-lightning",
                 "examples/pytorch/domain_templates/reinforce_learn_Qnet.py"),
    PublicScript("fabric_mnist", "vision, Fabric", "Lightning-AI/pytorch-lightning",
                 "examples/fabric/image_classifier/train_fabric.py", "", mnist("../../../Datasets")),
    PublicScript("fabric_ppo", "RL, Fabric", "Lightning-AI/pytorch-lightning",
                 "examples/fabric/reinforcement_learning/train_fabric.py"),
    PublicScript("fabric_language", "language, Fabric", "Lightning-AI/pytorch-lightning",
                 "examples/fabric/language_model/train.py", data=words("data/wikitext-2.txt", lines=20000)),
    PublicScript("x_transformers", "language, no loader", "lucidrains/x-transformers", "train_copy.py",
                 environment={"PYTHONPATH": "{root}"}),
    PublicScript("unet", "vision, segmentation", "milesial/Pytorch-UNet", "train.py", "--scale 0.5 --epochs 2 "
                 "--batch-size 1", pictures(["data/imgs", "data/masks"], 40)),
    PublicScript("diffusion", "diffusion, Accelerate", "huggingface/diffusers",
                 "examples/unconditional_image_generation/train_unconditional.py",
                 "--train_data_dir made --resolution 16 --train_batch_size 2 --dataloader_num_workers 2 "
                 "--output_dir out --num_epochs 2 --model_config_name_or_path config", pictures(["made"], 64)),
    PublicScript("tcn_adding", "series, convolutions", "locuslab/TCN", "TCN/adding_problem/add_test.py",
                 "--cuda", environment={"PYTHONPATH": "{root}"}),
    PublicScript("ignite_mnist", "vision, Ignite", "pytorch/ignite", "examples/mnist/mnist.py", data=mnist(".")),
    PublicScript("ignite_reinforce", "RL, Ignite", "pytorch/ignite", "examples/reinforcement_learning/reinforce.py"),
]
