"""The way out: ONNX, the browser, the hub."""
