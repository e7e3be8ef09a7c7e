"""A model of transformers, trained by its Trainer."""

import time

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.006)
        return {"input_ids": torch.arange(12) + index % 50, "labels": index % 2}


config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=2
)
arguments = TrainingArguments(
    "trained", per_device_train_batch_size=8, num_train_epochs=100, report_to=[], use_cpu=True, disable_tqdm=True
)
Trainer(BertForSequenceClassification(config), arguments, train_dataset=Sentences()).train()
