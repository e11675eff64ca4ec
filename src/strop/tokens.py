"""What a tokenizer and a renderer are.

A renderer turns messages into token *deltas* under a model's chat template, and never renders again
what was sampled: sampled ids survive every turn exactly as the model produced them.
"""
