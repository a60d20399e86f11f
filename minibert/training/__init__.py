"""Training: pre-training from scratch, fine-tuning, and the loop that both share (loop.py, where to begin reading).

The core never imports this package; what it needs beyond the core comes with the extra `[train]`.
"""
