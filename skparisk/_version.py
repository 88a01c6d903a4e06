"""The version of the library, which documents carry."""

__version__ = "0.1.0.dev0"
