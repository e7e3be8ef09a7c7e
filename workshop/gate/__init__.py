"""The gate: is the script of the working tree slower than at an earlier revision of its repository?"""
