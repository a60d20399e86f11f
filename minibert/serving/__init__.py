"""A model away from Python's notebooks: exported to ONNX (`export`), and behind HTTP (`app`)."""
