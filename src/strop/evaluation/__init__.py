"""How good is this model, really?"""
