"""One implementation in its own process. Requests and replies cross as MessagePack and raw bytes of tensors."""
