"""May this environment train a model?"""
