"""What may an agent do in a workspace?"""
