"""The page that `minibert view` writes: build (its data), live (its model), and its JavaScript."""
