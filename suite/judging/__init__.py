"""What an answer is held against: precision, error bounds, and the only comparison of tensors."""
