"""How a Vision Transformer turns an image into a sequence."""
