"""Arrays and tables from one library, process or machine to another, without a copy."""

from crossdock._native import __version__

__all__ = ["__version__"]
