"""Texts to rows of token ids: prompts, pairs, windows and words, and tags back to spans."""
