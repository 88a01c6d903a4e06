"""The figures, tables and worked numbers of three sources, made again by skparisk.

``python -m benchmarks.papers``, in the root of the repository; see README.md here.
"""
