"""The version of the library, which documents carry."""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
