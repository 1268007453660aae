"""The commands of ``python -m app``, each in a module of its own that is loaded when it is called for."""
