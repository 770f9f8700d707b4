"""The log as people use it: from Python, from the shell, in tests and from Spark. `rounds` plans it, `bars` judges."""
