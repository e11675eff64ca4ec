"""Tokens in; tokens, log-probabilities and weight versions out.

This chapter imports errors, clock and seeds and nothing else of ours, and could be lifted out whole.
"""
