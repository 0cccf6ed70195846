"""The same architecture in plain PyTorch, for `bat_step_vs_torch.py`.

Runs under an interpreter that has PyTorch; nothing of bat_tf is imported. Reads one
JSON request a line and answers one JSON line: see the driver.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """ATS and FFTS as one would write them in PyTorch."""

    def __init__(self, d_model, d_ff, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.output = nn.Linear(d_model, d_model)
        self.conv1 = nn.Linear(d_model, d_model)
        self.conv3 = nn.Conv1d(d_model, d_model, 3, padding=1)
        self.hidden = nn.Linear(d_model, d_ff)
        self.feed_forward = nn.Linear(d_ff, d_model)
        self.residual = nn.Linear(d_model, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model, eps=1e-6) for _ in range(3))

    def forward(self, x, mask):
        batch, length, width = x.shape
        heads = (batch, length, 3, self.num_heads, width // self.num_heads)
        query, key, value = self.qkv(x).view(heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask[:, None, None, :]
        )
        features = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        seen = x * mask[..., None]
        features = features + functional.relu(self.conv1(seen))
        conv3 = self.conv3(seen.transpose(1, 2)).transpose(1, 2)
        features = features + functional.relu(conv3)
        a = self.norms[1](self.norms[0](features) + x)
        y = self.feed_forward(functional.relu(self.hidden(a)))
        return self.norms[2](y + functional.relu(self.residual(a)))


class Tagger(nn.Module):
    """Embeddings and sinusoids → LN → blocks → a linear layer."""

    def __init__(self, vocabulary, classes, d_model, d_ff, num_heads, num_layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.norm = nn.LayerNorm(d_model, eps=1e-6)
        self.blocks = nn.ModuleList(
            Block(d_model, d_ff, num_heads) for _ in range(num_layers)
        )
        self.head = nn.Linear(d_model, classes)
        channels = torch.arange(d_model)
        rates = 10000.0 ** (-2.0 * (channels // 2) / d_model)
        angles = torch.arange(2048)[:, None] * rates + (channels % 2) * torch.pi / 2
        self.register_buffer("positions", torch.sin(angles))

    def forward(self, ids, mask):
        x = self.norm(self.embedding(ids) + self.positions[: ids.shape[1]])
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


class Trainer:
    """A model and its optimizer; one per shape of the architecture."""

    def __init__(self, sizes):
        torch.manual_seed(0)
        self.classes, self.vocabulary = sizes["classes"], sizes["vocabulary"]
        self.model = Tagger(**sizes)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-4, fused=True)

    def step(self, ids, mask, tags):
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(ids, mask).reshape(-1, self.classes)
        loss = functional.cross_entropy(logits, tags.reshape(-1), ignore_index=-1)
        loss.backward()
        self.optimizer.step()
        return loss

    def batch(self, lengths, padded_to):
        """Random ids and tags of the given lengths, padded."""
        mask = torch.arange(padded_to)[None, :] < torch.tensor(lengths)[:, None]
        ids = torch.randint(1, self.vocabulary, mask.shape) * mask
        tags = torch.where(mask, torch.randint(0, self.classes, mask.shape), -1)
        return ids, mask, tags


def time_steps(trainer, request):
    """Seconds of `steps` training steps on one full batch."""
    length = request["length"]
    batch = trainer.batch([length] * request["batch"], length)
    trainer.step(*batch)
    started = time.perf_counter()
    for _ in range(request["steps"]):
        loss = trainer.step(*batch)
    loss.item()
    return time.perf_counter() - started


def time_epoch(trainer, request):
    """Seconds of one shuffled epoch, padded to one length or to each batch's own."""
    lengths = [min(n, request["max_length"]) for n in request["lengths"]]
    ids, mask, tags = trainer.batch(lengths, request["max_length"])
    counts = torch.tensor(lengths)
    started = time.perf_counter()
    for rows in torch.randperm(len(lengths)).split(request["batch"]):
        longest = request["max_length"]
        if request["padding"] == "batch":
            longest = int(counts[rows].max())
        part = (ids[rows, :longest], mask[rows, :longest], tags[rows, :longest])
        loss = trainer.step(*part)
    loss.item()
    return time.perf_counter() - started


def main():
    trainers = {}
    for line in sys.stdin:
        request = json.loads(line)
        torch.set_num_threads(request["threads"])
        sizes = json.dumps(request["sizes"])
        if sizes not in trainers:
            trainers[sizes] = Trainer(request["sizes"])
        trainer = trainers[sizes]
        time_one = time_epoch if "lengths" in request else time_steps
        answer = {
            "seconds": time_one(trainer, request),
            "parameters": trainer.parameters,
            "version": f"PyTorch {torch.__version__}",
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
