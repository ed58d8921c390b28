"""The basis of all machine code: Numba's compiler with its cache, and functions for JSON tokens.

`cdc.compiled` and `variants.compiled` build on it. Importing `compiler` needs Numba, which the
extra `compiled` installs.
"""
