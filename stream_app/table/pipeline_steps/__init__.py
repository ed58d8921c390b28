"""Steps of the decoding pipeline that judge rows by their table; `cdc.pipeline` orders them."""
