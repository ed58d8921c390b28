"""The port `dialect` of all JSON formats, and a decoder that parses similar records together.

Start with `decoder`. The values of its stages, from a slice of a batch to the whole batch:

==========================  =====================================  =================================
stage                       value                                  module
==========================  =====================================  =================================
values of a slice           `PlacedValues`                         `decoder`
records with a known frame  `FramedRecords`, `FramedTails`         `debezium.decoding.known_frames`
parsed by machine code      `CompiledMessages`                     `compiled_messages`
parsed in columns           `ParsedMessages`, `ParsedRecords`      `dialect`
..                          `ParsedImages`                         `debezium.decoding.parsed_images`
drift of parsed records     `SearchedRecords`                      `drift_search`
..                          `DriftHashes`                          `debezium.decoding.fast_decoding`
decoded in columns          `ColumnarResult`, `ColumnarPart`       `batch_outcome`
read one by one             `OneByOneResult`                       `batch_outcome`
results of a batch so far   `BatchOutcome`                         `batch_outcome`
a decoded batch             `DecodedBatch`, with a `ChangeBatch`   `cdc.change_batch`
==========================  =====================================  =================================
"""
