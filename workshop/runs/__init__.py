"""Other people's processes: started, followed, led through stages, ended."""
