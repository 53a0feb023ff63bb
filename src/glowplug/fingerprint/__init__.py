"""The facts under which a start compiles, each with where it comes from; key and guards made of them. Standard
library only.
"""
