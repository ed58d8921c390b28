"""The options that name a schema registry, for every format that asks one."""

from __future__ import annotations

from collections.abc import Mapping

from stream_app.cdc.schema_registry_port import URL, USER_INFO, Registries, Schemas
from stream_app.errors import UsageError
from stream_app.model.options.option import TEXT, Option

REGISTRY_OPTIONS = (
    Option(
        URL,
        TEXT,
        "",
        "Addresses of the schema registry, comma separated; the next one is asked when one does "
        "not answer.",
        example="http://registry:8081",
    ),
    Option(
        USER_INFO,
        TEXT,
        "",
        "Login at the registry, USER:PASSWORD. Best written as `${env:NAME}` or `${file:PATH}`.",
    ),
)
_OWN = frozenset(option.key for option in REGISTRY_OPTIONS)


def check_urls(name: str, section: str, registries: Registries, options: Mapping[str, str]) -> None:
    """Check the addresses of the registry.

    Args:
        name, section: of the format.

    Raises:
        UsageError: one is no address.
    """
    problems = filter(None, (registries.url_problem(url) for url in _urls(options)))
    if said := "; ".join(problems):
        raise UsageError(
            f"options of {name} are wrong: {URL}: {said}",
            where=f"source.{section}",
            fix="give the addresses of the schema registry, such as http://registry:8081",
        )


def schemas_of(
    name: str, section: str, registries: Registries, options: Mapping[str, str]
) -> Schemas:
    """The schemas of the registry that the options name.

    Args:
        name, section: of the format.

    Raises:
        UsageError: they name none.
    """
    urls = _urls(options)
    if not urls:
        raise UsageError(
            f"options of {name} lack {URL}",
            where=f"source.{section}",
            fix=f'give the address of the schema registry: {section}."{URL}" = "http://…"',
        )
    return registries.at(urls, options.get(USER_INFO, ""), section)


def without_registry(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those of the registry."""
    return {key: value for key, value in options.items() if key not in _OWN}


def _urls(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, (url.strip() for url in options.get(URL, "").split(","))))
