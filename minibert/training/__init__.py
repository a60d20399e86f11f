"""Pre-train and fine-tune models with one training loop.

Begin reading with loop.py, the loop that both share.

The core never imports this package. What it needs beyond the core comes with the extra `[train]`.
"""
