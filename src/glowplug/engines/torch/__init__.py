"""Any program that uses torch.compile, without an engine around it."""
