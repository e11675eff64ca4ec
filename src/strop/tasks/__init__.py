"""What is asked, and how is it judged?"""
