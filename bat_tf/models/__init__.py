"""The Keras models: encoder states → logits → tags and labels."""
