"""The page that `minibert view` writes: build (its data), live (the model inside it), and its JavaScript."""
