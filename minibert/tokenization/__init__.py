"""The tokenizer as a lesson: basic splitting, WordPiece, special tokens, rows, and the whole."""
