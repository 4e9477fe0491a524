"""One file a command of `python -m trainer`: options in, results and exit codes out."""
