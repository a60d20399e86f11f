"""Pre-train and fine-tune models with one training loop.

Begin reading with steps.py, what a step does, and run.py, the run around it.

The core never imports this package. What it needs beyond the core comes with the extra `[train]`.
"""
