"""`python -m workshop` is `workshop`, also where the folder of installed commands is not on PATH."""

from workshop.cli.main import main

main()
