"""The commands. `main` is the way in; each command is a module of its own, loaded when it is called."""
