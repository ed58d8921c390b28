"""Makes the pipeline of a format, with the steps that the format's options demand.

`table_pipeline` calls it, and adds the steps that the table demands.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.cdc.column_drift import COLUMN_ALIASES, parse_aliases
from stream_app.cdc.lower_case_names import Describe, LowerCaseDescriber, LowerCaseFormat
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.cdc.pipeline import Pipeline, Step, StepPlace
from stream_app.cdc.pipeline_steps.alias_step import AliasStep, with_names_of_source
from stream_app.cdc.pipeline_steps.description_step import DescriptionStep
from stream_app.message_format_registry import format_named, make_format, origins_in


def format_pipeline(name: str, setup: FormatSetup) -> Pipeline:
    """Return the pipeline of a format, with the steps that its options demand.

    Raises:
        UsageError: the format or an option is unknown, or an option has a wrong value.
    """
    declaration = format_named(name)
    options = dict(setup.options)
    own_aliases = parse_aliases(options.pop(COLUMN_ALIASES, ""))
    earlier_names = {
        name: column for name, column in setup.earlier_names.items() if name not in own_aliases
    }
    aliases = {**earlier_names, **own_aliases}
    setup = replace(setup, options=options)
    source_setup = with_names_of_source(setup, aliases) if aliases else setup
    steps: dict[StepPlace, Step] = {}
    if aliases:
        schema = schema_of_changes(setup.arrow_schema)
        steps[StepPlace.COLUMN_ALIASES] = AliasStep(
            aliases=aliases, schema=schema, exclusive=frozenset(earlier_names)
        )
    if not setup.traits.lowers_names and setup.mapping_options is None:
        return Pipeline(declaration.make(source_setup), steps)
    describe: Describe = declaration.make_source_extractor(options).describe
    decoder: MessageFormat
    if setup.traits.lowers_names:
        decoder = LowerCaseFormat(
            make=functools.partial(make_format, name),
            describe=describe,
            find_origins=functools.partial(origins_in, name, options),
            setup=source_setup,
        )
        describe = LowerCaseDescriber(describe)
    else:
        decoder = declaration.make(source_setup)
    if setup.mapping_options is not None:
        steps[StepPlace.DESCRIBED_COLUMNS] = DescriptionStep(
            describe=describe, options=setup.mapping_options, columns=setup.columns, aliases=aliases
        )
    return Pipeline(decoder, steps)
