"""Steps of the pipeline of decoding that need no table. `cdc.pipeline` has their order."""
