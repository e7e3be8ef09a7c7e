"""Which loans will default? A wide MLP on tabular features, all of them in memory."""

import torch
import torch.nn as nn

ROWS, NUMERIC, CATEGORIES = 60_000, 30, (12, 50, 7, 200)
BATCH = 1024

torch.manual_seed(12)
numeric = torch.randn(ROWS, NUMERIC)
categorical = torch.stack([torch.randint(c, (ROWS,)) for c in CATEGORIES], dim=1)
risk = numeric @ torch.randn(NUMERIC) / 5 + 0.5 * (categorical[:, 1] % 3) - 1.5
default = (torch.rand(ROWS) < risk.sigmoid()).float()


class LoanNet(nn.Module):
    def __init__(self, width=768):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, 16) for c in CATEGORIES)
        self.trunk = nn.Sequential(
            nn.Linear(NUMERIC + 16 * len(CATEGORIES), width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, 1),
        )

    def forward(self, numbers, kinds):
        embedded = [table(kinds[:, k]) for k, table in enumerate(self.embeddings)]
        return self.trunk(torch.cat([numbers, *embedded], dim=1)).squeeze(1)


net = LoanNet()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.02, fused=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=200 * (ROWS // BATCH))
for epoch in range(200):
    order = torch.randperm(ROWS)
    for n in range(ROWS // BATCH):
        rows = order[n * BATCH : (n + 1) * BATCH]
        loss = nn.functional.binary_cross_entropy_with_logits(net(numeric[rows], categorical[rows]), default[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
