"""The basis of all machine code: Numba's compiler with its cache, and functions for JSON tokens.

`cdc.compiled`, `variants.compiled` and `format.row_hash.compiled` build on it. Importing `compiler`
needs Numba, which the extra `compiled` installs. So callers load them by `loaded_code`.
"""
