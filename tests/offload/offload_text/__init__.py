"""The packages that "Offloading to XPU from Python" imagines: tests/python/test_offload_text.py runs its examples."""
