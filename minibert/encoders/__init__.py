"""Models of texts, a class a kind. Below them rows and arithmetic, beside them folders and onnx."""
