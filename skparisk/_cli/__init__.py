"""The commands of ``skparisk``: each adds its options, and runs."""
