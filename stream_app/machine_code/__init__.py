"""What machine code is made of: Numba's compiler with its cache, and the tokens of JSON.

The rooms of machine code stand on it: `cdc.compiled` and `variants.compiled`. Importing `compiler`
needs Numba, which the extra `compiled` brings.
"""
