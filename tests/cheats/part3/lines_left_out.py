"""Only every fifth step fetches its loss and gets a line in metrics.csv."""

from variation import train_with

train_with(
    ("recent_losses.append(loss.item())", "recent_losses.append(loss.item() if step % 5 == 0 else 0.0)"),
    (
        "                metrics.writerow([epoch",
        "                if step % 5 == 0:\n                    metrics.writerow([epoch",
    ),
)
