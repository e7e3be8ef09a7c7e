"""Forty public training scripts and thirteen notebooks, at named commits, with their arguments and made data.

None of their code is here, and none of a script is edited: whatever it needs to be short, and to run without a GPU and
a network, is in its arguments, its environment and its data. Of a notebook, the cells that are exercises, or cannot run
without a network, are left out, and what today's versions of packages no longer take is edited. The packages that they
need, beside those of the project with its extra `test`, are in `REQUIREMENTS` and `OF_NOTEBOOKS`.
"""

import json
import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

REQUIREMENTS = (
    "datasets diffusers einops einx evaluate gymnasium==0.29.1 jsonargparse[signatures] "
    "loguru matplotlib peft pytorch-ignite requests scikit-learn six tensorboard tensorboardX timm torch-einops-utils "
    "torch_geometric trl tyro wandb"
)

OF_NOTEBOOKS = (
    "datasets einops fastcore fastprogress gymnasium imageio matplotlib mlxtend mnist1d requests scikit-learn seaborn "
    "tensorboard timm torcheval torchinfo wasabi"
)

COMMITS = {
    "Lightning-AI/pytorch-lightning": "7f0c3436cd3f6ad3753125672024fc415cbcb414",
    "eriklindernoren/PyTorch-GAN": "36d3c77e5ff20ebe0aeefd322326a134a279b93e",
    "Ezra-Yu/vision": "aea748b3ef0387b0b6ac1efa8aee07bb109a9561",
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
    "rixwew/pytorch-fm": "f74ad19771eda104e99874d19dc892e988ec53fa",
    "huggingface/trl": "f2cd57710ae345ea6428ae95363267fcf38a3dc8",
    "vwxyzjn/cleanrl": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    "bentrevett/pytorch-image-classification": "33c9cfdb9097bc65b5800c1996f199f0ba520888",
    "fastai/course22p2": "df9323235bc395b5c2f58a3d08b83761947b9b93",
    "huggingface/deep-rl-class": "ad16575105d3cc692db97a2b2a835b2ec7a7420e",
    "huggingface/notebooks": "5068b1142e8ed1e691c8b1e9f98e4473ebe55790",
    "karpathy/nn-zero-to-hero": "73c3fcc741f0ec104ca850b1fb0df90e7e8d4cde",
    "mrdbourke/pytorch-deep-learning": "baa27b691617461c173ecf3439793cd8cde74e13",
    "phlippe/uvadlc_notebooks": "0da8037c7abc32f478ff6142acceb72dbcf088ee",
    "rasbt/deeplearning-models": "18e046926551378cd691fd871dda0f21dcd272ab",
    "udlbook/udlbook": "a8fe82b5e155cb4f42415d2461ffa23224b1173b",
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
    """Makes the data, given the folder in which the script runs: its own."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables; `{root}` stands for the folder of the repository."""
    launcher: str = ""
    """What starts it, as `torchrun --nproc_per_node=2`; by default Python."""
    cells: str = ""
    """Of a notebook, those that are run; all of them with ""."""
    edits: Sequence[tuple[str, str]] = ()
    """Of a notebook, what is replaced in its cells, and by what."""

    @property
    def commit(self) -> str:
        """The commit of its repository."""
        return COMMITS[self.repository]


def mnist(place: str, train: int = 6000, test: int = 500, name: str = "MNIST") -> Callable[[Path], None]:
    """Make the four files of MNIST, or of a set like it, of random digits, as torchvision reads them."""

    def make(folder: Path) -> None:
        raw = folder / place / name / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(0)
        for part, count in (("train", train), ("t10k", test)):
            images, labels = draw.integers(0, 256, (count, 28, 28)), draw.integers(0, 10, count)
            header = struct.pack(">IIII", 2051, count, 28, 28)
            (raw / f"{part}-images-idx3-ubyte").write_bytes(header + images.astype(np.uint8).tobytes())
            header = struct.pack(">II", 2049, count)
            (raw / f"{part}-labels-idx1-ubyte").write_bytes(header + labels.astype(np.uint8).tobytes())

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


def pairs(folder: Path) -> None:
    """Draw pictures and their masks, of the same names."""
    draw = np.random.default_rng(0)
    for place in ("data/imgs", "data/masks"):
        (folder / place).mkdir(parents=True, exist_ok=True)
    for number in range(40):
        Image.fromarray(draw.integers(0, 256, (96, 96, 3)).astype(np.uint8)).save(folder / f"data/imgs/{number}.png")
        Image.fromarray((draw.random((96, 96)) < 0.5).astype(np.uint8)).save(folder / f"data/masks/{number}.png")


def molecules(folder: Path) -> None:
    """Write small graphs, each a ring of atoms, in the files of a TU data set."""
    raw = folder / "../data/TU/MUTAG/raw"
    raw.mkdir(parents=True, exist_ok=True)
    edges, graphs, atoms = [], [], []
    for graph in range(188):
        first, size = len(graphs) + 1, 12 + graph % 9
        edges += [f"{first + atom}, {first + (atom + step) % size}" for atom in range(size) for step in (1, size - 1)]
        graphs += [str(graph + 1)] * size
        atoms += [str(atom * graph % 7) for atom in range(size)]
    labels = [str(graph % 2) for graph in range(188)]
    for name, rows in (("A", edges), ("graph_indicator", graphs), ("node_labels", atoms), ("graph_labels", labels)):
        (raw / f"MUTAG_{name}.txt").write_text("\n".join(rows) + "\n")


def books(folder: Path) -> None:
    """Write who has read which book, in the files of LightGCN."""
    raw = folder / "../data/Amazon/raw"
    raw.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for name, count in (("user", 2000), ("item", 3000)):
        rows = [f"{number} {number}" for number in range(count)]
        (raw / f"{name}_list.txt").write_text("\n".join(["org_id remap_id", *rows]) + "\n")
    for name, count in (("train", 20), ("test", 3)):
        rows = [" ".join(map(str, [user, *draw.integers(0, 3000, count)])) for user in range(2000)]
        (raw / f"{name}.txt").write_text("\n".join(rows) + "\n")


def clicks(folder: Path) -> None:
    """Write advertisements, each with 22 features and whether it was clicked."""
    draw = np.random.default_rng(0)
    rows = [f"{row},{row % 2}," + ",".join(map(str, draw.integers(0, 50, 22))) for row in range(20_000)]
    (folder / "avazu.csv").write_text("id,click\n" + "\n".join(rows) + "\n")


def unet_config(folder: Path) -> None:
    """Draw pictures, and write the settings of a small U-Net."""
    pictures(["made"])(folder)
    (folder / "config").mkdir(exist_ok=True)
    blocks = {"down_block_types": ["DownBlock2D", "AttnDownBlock2D"], "up_block_types": ["AttnUpBlock2D", "UpBlock2D"]}
    settings = {"_class_name": "UNet2DModel", "sample_size": 16, "block_out_channels": [32, 64], **blocks}
    (folder / "config" / "config.json").write_text(json.dumps(settings))


def language_model(folder: Path) -> None:
    """Save a small GPT-2, its tokenizer, and texts to train it with."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words("made/train.txt", "made/valid.txt", lines=1000)(folder)
    tokenizer = Tokenizer(models.BPE(unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=["<eos>"], show_progress=False)
    tokenizer.train([str(folder / "made/train.txt")], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", bos_token="<eos>")
    fast.save_pretrained(folder / "model")
    sizes = GPT2Config(vocab_size=1000, n_positions=256, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(sizes).save_pretrained(folder / "model")
    lines = (folder / "made/train.txt").read_text().splitlines()
    rows = "\n".join(json.dumps({"text": line}) for line in lines)
    (folder / "texts").mkdir(exist_ok=True)
    (folder / "texts" / "train.jsonl").write_text(rows)


def names(folder: Path) -> None:
    """Write names, one a line."""
    draw = random.Random(0)
    made = {"".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(5000)}
    (folder / "names.txt").write_text("\n".join(sorted(made)))


def clothes_of_the_hub(folder: Path) -> None:
    """Write the data set of the name that a notebook loads from the hub, and a picture that it would fetch."""
    from datasets import Dataset

    pictures(["."], 1, 256)(folder)
    (folder / "fashion_mnist").mkdir(exist_ok=True)
    noise = np.random.default_rng(0).integers(0, 256, (2000, 28, 28)).astype(np.uint8)
    columns = {"image": [Image.fromarray(each) for each in noise], "label": [each % 10 for each in range(2000)]}
    made = Dataset.from_dict(columns)
    made.to_parquet(folder / "fashion_mnist" / "train.parquet")
    made.select(range(200)).to_parquet(folder / "fashion_mnist" / "test.parquet")


def pairs_of_sentences(folder: Path) -> None:
    """Write the data set and the model of the names that a notebook loads from the hub."""
    from datasets import Dataset
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words("made/text.txt", lines=2000)(folder)
    lines = (folder / "made/text.txt").read_text().splitlines()
    (folder / "glue" / "mrpc").mkdir(parents=True, exist_ok=True)
    for part, some in (("train", lines), ("validation", lines[:200])):
        columns = {"sentence1": some, "sentence2": some[::-1], "label": [each % 2 for each in range(len(some))]}
        Dataset.from_dict({**columns, "idx": [*range(len(some))]}).to_parquet(folder / f"glue/mrpc/{part}.parquet")
    config = "configs:\n- config_name: mrpc\n  data_files:\n"
    parts = "".join(f"  - split: {part}\n    path: mrpc/{part}.parquet\n" for part in ("train", "validation"))
    (folder / "glue" / "README.md").write_text(f"---\n{config}{parts}---\n")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{each}" for each in "abcdefghij")]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert-base-uncased")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    BertModel(BertConfig(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder / "bert-base-uncased")


def accuracy(folder: Path) -> None:
    """Write the module that a notebook would fetch."""
    text = "def accuracy_fn(y_true, y_pred):\n    return 100 * (y_true == y_pred).sum().item() / len(y_pred)\n"
    (folder / "helper_functions.py").write_text(text)


def both(*makers: Callable[[Path], None]) -> Callable[[Path], None]:
    """Make several."""

    def make(folder: Path) -> None:
        for each in makers:
            each(folder)

    return make


CLASSES = pictures(
    [f"made/{split}/{name}" for split in ("train", "val") for name in "ash elm fir oak yew".split()], 128
)
DOMAINS = pictures([f"../../data/made/{split}/{name}" for split in ("train", "test") for name in "AB"])
WIKITEXT = words(*(f"data/wikitext-2/{split}.txt" for split in ("train", "valid", "test")))
WIKITEXT_OF_LIGHTNING = words("data/wikitext-2.txt", lines=20_000)

OWN_PACKAGE = {"PYTHONPATH": "{root}"}
"""For a script that imports a package of its repository."""

NANO = (
    "--device=cpu --dtype=float32 --dataset=shakespeare_char --batch_size=4 --block_size=64 --n_layer=2 --n_head=4 "
    "--n_embd=128 --eval_iters=5 "
)
TIMM = "--data-dir made --img-size 64 --num-classes 5 --workers 2 --device cpu --epochs 3 "
SFT = (
    "--model_name_or_path model --dataset_name texts --output_dir out --per_device_train_batch_size 4 --max_length 64 "
    "--use_cpu --bf16 False --report_to none --gradient_checkpointing False"
)
DIFFUSION = (
    "--train_data_dir made --resolution 16 --train_batch_size 2 --dataloader_num_workers 2 --output_dir out "
    "--num_epochs 2 --model_config_name_or_path config"
)
LAUNCH = "accelerate launch --cpu --num_processes=2 --num_machines=1 --mixed_precision=no --dynamo_backend=no"

# fmt: off
SCRIPTS = [
    PublicScript("mnist", "vision", "pytorch/examples", "mnist/main.py", "", mnist("../data")),
    PublicScript("hogwild", "vision, processes of its own", "pytorch/examples", "mnist_hogwild/main.py",
                 "--num-processes 2", mnist("../data")),
    PublicScript("forward_forward", "vision, an optimizer for each layer", "pytorch/examples",
                 "mnist_forward_forward/main.py", "--train_size 5000 --test_size 500", mnist("data")),
    PublicScript("vae", "vision, VAE", "pytorch/examples", "vae/main.py", "--epochs 1000", mnist("../data")),
    PublicScript("siamese", "vision, pairs", "pytorch/examples", "siamese_network/main.py", "", mnist("../data")),
    PublicScript("super_resolution", "vision, images from disk", "pytorch/examples", "super_resolution/main.py",
                 "--upscale_factor 3 --batchSize 4 --nEpochs 30 --lr 0.001",
                 pictures(["dataset/BSDS300/images/train", "dataset/BSDS300/images/test"], side=320)),
    PublicScript("imagenet", "vision, torchvision's models", "pytorch/examples", "imagenet/main.py",
                 "--dummy -a resnet18 -b 8 -j 2 --epochs 1"),
    PublicScript("torchvision", "vision, torchvision's references", "Ezra-Yu/vision",
                 "references/classification/train.py", "--data-path made --model resnet18 --device cpu -b 8 -j 2 "
                 "--epochs 3 --train-crop-size 64 --val-crop-size 64 --val-resize-size 72", CLASSES),
    PublicScript("timm", "vision, timm", "huggingface/pytorch-image-models", "train.py",
                 TIMM + "--model resnet18 -b 8", CLASSES),
    PublicScript("timm_accumulate", "vision, timm, gradients of four batches, an optimizer that is not torch's",
                 "huggingface/pytorch-image-models", "train.py", TIMM + "--model vit_tiny_patch16_224 -b 4 --opt lamb "
                 "--model-kwargs img_size=64 --grad-accum-steps 4 --mixup 0.2 --model-ema", CLASSES),
    PublicScript("unet", "vision, segmentation", "milesial/Pytorch-UNet", "train.py",
                 "--scale 0.5 --epochs 2 --batch-size 1", pairs),
    PublicScript("ignite_mnist", "vision, Ignite", "pytorch/ignite", "examples/mnist/mnist.py", "", mnist(".")),
    PublicScript("lightning_ddp", "vision, Lightning, which starts a second rank", "Lightning-AI/pytorch-lightning",
                 "examples/pytorch/basics/autoencoder.py",
                 "--trainer.accelerator=cpu --trainer.devices=2 --trainer.strategy=ddp",
                 both(mnist("data"), mnist("../../Datasets", 60_000))),
    PublicScript("fabric_mnist", "vision, Fabric", "Lightning-AI/pytorch-lightning",
                 "examples/fabric/image_classifier/train_fabric.py", "", mnist("../../../Datasets")),
    PublicScript("dcgan", "GAN", "pytorch/examples", "dcgan/main.py",
                 "--dataset fake --batchSize 8 --ngf 16 --ndf 16 --outf ."),
    PublicScript("wgan_gp", "GAN, double backward", "eriklindernoren/PyTorch-GAN",
                 "implementations/wgan_gp/wgan_gp.py", "", mnist("../../data/mnist")),
    PublicScript("cyclegan", "GAN, images from disk", "eriklindernoren/PyTorch-GAN",
                 "implementations/cyclegan/cyclegan.py", "--dataset_name made --img_height 32 --img_width 32 "
                 "--n_residual_blocks 2 --n_cpu 2", DOMAINS),
    PublicScript("diffusion", "diffusion, Accelerate", "huggingface/diffusers",
                 "examples/unconditional_image_generation/train_unconditional.py", DIFFUSION, unet_config),
    PublicScript("diffusion_launch", "diffusion, Accelerate's launcher", "huggingface/diffusers",
                 "examples/unconditional_image_generation/train_unconditional.py", DIFFUSION, unet_config,
                 launcher=LAUNCH),
    PublicScript("word_language_model", "language, no optimizer", "pytorch/examples", "word_language_model/main.py",
                 "--model LSTM", WIKITEXT),
    PublicScript("minGPT", "language, a trainer of its own", "karpathy/minGPT", "projects/adder/adder.py",
                 "--trainer.device=cpu", environment=OWN_PACKAGE),
    PublicScript("nanoGPT", "language, gradients of four batches", "karpathy/nanoGPT", "train.py",
                 NANO + "--compile=False --gradient_accumulation_steps=4", shakespeare),
    PublicScript("nanoGPT_compile", "language, torch.compile", "karpathy/nanoGPT", "train.py",
                 NANO + "--compile=True --gradient_accumulation_steps=1", shakespeare),
    PublicScript("x_transformers", "language, no DataLoader", "lucidrains/x-transformers", "train_copy.py",
                 environment=OWN_PACKAGE),
    PublicScript("trl", "language, Trainer", "huggingface/trl", "trl/scripts/sft.py", SFT, language_model),
    PublicScript("trl_torchrun", "language, Trainer, torchrun", "huggingface/trl", "trl/scripts/sft.py", SFT,
                 language_model, launcher="torchrun --nproc_per_node=2"),
    PublicScript("lightning_transformer", "language, Lightning", "Lightning-AI/pytorch-lightning",
                 "examples/pytorch/basics/transformer.py", "", WIKITEXT_OF_LIGHTNING),
    PublicScript("reinforce", "RL, episodes that grow", "pytorch/examples", "reinforcement_learning/reinforce.py"),
    PublicScript("cleanrl_dqn", "RL, replay", "vwxyzjn/cleanrl", "cleanrl/dqn.py", "--learning-starts 1000",
                 environment=OWN_PACKAGE),
    PublicScript("cleanrl_ppo", "RL, rollouts", "vwxyzjn/cleanrl", "cleanrl/ppo.py"),
    PublicScript("cleanrl_sac", "RL, three optimizers", "vwxyzjn/cleanrl", "cleanrl/sac_continuous_action.py",
                 "--env-id Pendulum-v1 --learning-starts 500", environment=OWN_PACKAGE),
    PublicScript("fabric_ppo", "RL, Fabric", "Lightning-AI/pytorch-lightning",
                 "examples/fabric/reinforcement_learning/train_fabric.py"),
    PublicScript("rpc_agents", "RL, mp.spawn and RPC", "pytorch/examples", "distributed/rpc/rl/main.py"),
    PublicScript("gat", "graphs, the whole graph in a step", "pytorch/examples", "gat/main.py", "", cora("cora")),
    PublicScript("gin", "graphs, PyG", "pyg-team/pytorch_geometric", "examples/mutag_gin.py", "--epochs 100000",
                 molecules),
    PublicScript("lightgcn", "recommender, PyG", "pyg-team/pytorch_geometric", "examples/lightgcn.py", "", books),
    PublicScript("fm", "recommender, LMDB", "rixwew/pytorch-fm", "examples/main.py", "--dataset_name avazu "
                 "--dataset_path avazu.csv --model_name dfm --batch_size 256 --device cpu --save_dir .", clicks,
                 environment=OWN_PACKAGE),
    PublicScript("sine_lbfgs", "series, LBFGS with closures", "pytorch/examples", "time_sequence_prediction/train.py",
                 "", sine_waves, environment={"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}),
    PublicScript("tcn_adding", "series, convolutions", "locuslab/TCN", "TCN/adding_problem/add_test.py", "--cuda",
                 environment=OWN_PACKAGE),
    PublicScript("music", "audio, as notes", "locuslab/TCN", "TCN/poly_music/music_test.py", "--cuda",
                 environment=OWN_PACKAGE),
]

NOTEBOOKS = [
    PublicScript("makemore", "text, no DataLoader, no optimizer", "karpathy/nn-zero-to-hero",
                 "lectures/makemore/makemore_part3_bn.ipynb", data=names),
    PublicScript("lenet", "vision, tqdm.notebook, the loop in a function", "bentrevett/pytorch-image-classification",
                 "2_lenet.ipynb", data=mnist(".data")),
    PublicScript("learner", "fastai-like, callbacks, a package beside it", "fastai/course22p2", "nbs/09_learner.ipynb",
                 data=clothes_of_the_hub, cells="1-51",
                 edits=[("bs = 1024", "bs = 32"), ("= learn.epoch\n", "= str(learn.epoch)\n")]),
    PublicScript("unit4", "RL, episodes that grow, exercises", "huggingface/deep-rl-class",
                 "notebooks/unit4/unit4.ipynb", cells="3-9,13,15-20",
                 edits=[("import gym\nimport gym_pygame", "import gymnasium as gym"), ("env.reset()", "env.reset()[0]"),
                        ("done, _ = env.step", "done, _, _ = env.step"),
                        ("done, info = env.step", "done, _, info = env.step")]),
    PublicScript("unit8", "RL, rollouts, a script in a cell", "huggingface/deep-rl-class",
                 "notebooks/unit8/unit8_part1.ipynb", cells="12",
                 edits=[("import gym\n", "import gymnasium as gym\n"), ("envs.reset()", "envs.reset()[0]"),
                        ("done, info = envs.step", "done, _, info = envs.step"), ("env.seed(seed)", "pass"),
                        ("for item in info:", "for item in ():")]),
    PublicScript("mnist1d", "series, !pip", "udlbook/udlbook", "Notebooks/Chap10/10_2_Convolution_for_MNIST_1D.ipynb"),
    PublicScript("fashion", "vision, three trainings", "mrdbourke/pytorch-deep-learning",
                 "03_pytorch_computer_vision.ipynb", data=both(mnist("data", name="FashionMNIST"), accuracy)),
    PublicScript("foods", "vision, images from disk, workers", "mrdbourke/pytorch-deep-learning",
                 "04_pytorch_custom_datasets.ipynb", cells="1-58",
                 data=pictures([f"data/pizza_steak_sushi/{part}/{name}" for part in ("train", "test")
                                for name in ("pizza", "steak", "sushi")], 40, 384)),
    PublicScript("trainer", "text, Trainer", "huggingface/notebooks", "course/en/chapter3/section3.ipynb",
                 data=pairs_of_sentences, cells="1-8"),
    PublicScript("diffusion", "diffusion, tqdm, !pip and %matplotlib", "huggingface/notebooks",
                 "examples/annotated_diffusion.ipynb", data=clothes_of_the_hub,
                 edits=[("requests.get(url, stream=True).raw", "'_0.jpg'"), ("batch_size = 128", "batch_size = 8")]),
    PublicScript("accelerate", "vision, Accelerate's notebook_launcher", "huggingface/notebooks",
                 "examples/accelerate_examples/simple_cv_example.ipynb", data=pictures(["../../images"], 64, 256),
                 edits=[("pretrained=True", "pretrained=False"), ('("fp16", 42, 64)', '("no", 42, 8)')]),
    PublicScript("mlp", "vision, Lightning, extensions", "rasbt/deeplearning-models",
                 "pytorch-lightning_ipynb/mlp/mlp-basic.ipynb", data=mnist("data", 60_000, 2000), cells="1-21",
                 edits=[("Accuracy()", "Accuracy(task='multiclass', num_classes=10)"),
                        ("    progress_bar_refresh_rate=50,  # recommended for notebooks\n", "")]),
    PublicScript("transformer", "series, Lightning, tqdm.notebook", "phlippe/uvadlc_notebooks",
                 "docs/tutorial_notebooks/tutorial6/Transformers_and_MHAttention.ipynb", cells="1,3-25",
                 edits=[("from IPython.display import set_matplotlib_formats\n", ""),
                        ("set_matplotlib_formats('svg', 'pdf') # For export\n", "")]),
]
# fmt: on
