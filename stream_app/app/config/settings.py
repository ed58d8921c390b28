"""Reads settings from a TOML file, the environment and ``--set``, which override in this order.

`app_config` calls it, and interprets the settings. This module flattens them to dotted keys. It
replaces references to the environment or to files: ``${env:NAME}`` and ``${file:PATH}``. Secrets
belong in references or the file, because all users of the machine can see a command line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from stream_app.app.config.secrets import is_secret
from stream_app.app.config.values import Setting
from stream_app.errors import UsageError
from stream_app.fileio.setting_references import REFERENCE, MissingValueError, resolve_reference

_ENVIRONMENT = re.compile(r"STREAM_APP_([A-Z0-9_]+?)__([A-Z0-9_]+)")
_URL_PASSWORD = re.compile(r"(?:://[^/@\s:]*:(?=[^/@\s]+@)|[?&]password=)([^/@&\s]+)")
_FILE_SYSTEM = "file-system."
_CATALOG = "catalog."
_AWS_SECRETS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
)
"""AWS's variables with secrets, one by one: a pattern would also match variables with paths."""
_ICEBERG_CATALOGS = "PYICEBERG_CATALOG__"
"""The prefix of variables from which PyIceberg reads the logins of Iceberg's catalogs."""


def read_settings(
    path: Path, overrides: Sequence[str], environ: Mapping[str, str], problems: list[str]
) -> dict[str, Setting]:
    """Return key → setting for all settings, with references replaced.

    Args:
        overrides: ``KEY=VALUE`` of each ``--set``.
        problems: a list to which each problem is appended as a line.

    Raises:
        UsageError: the file does not exist, or it is not TOML.
    """
    settings = _file_settings(path, problems)
    settings |= _environment_settings(environ, problems)
    settings |= _override_settings(overrides, problems)
    # An empty text removes a key, so that an override can replace topics by a topic pattern.
    return {
        key: _resolve(key, setting, environ, problems)
        for key, setting in settings.items()
        if not (setting.is_text and setting.value == "")
    }


def file_io_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return options of file systems from variables: ``STREAM_APP_FILE_SYSTEM__S3__ENDPOINT``.

    Raises:
        UsageError: a reference cannot be resolved.
    """
    return _section_options(environ, _FILE_SYSTEM)


def catalog_options(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a catalog's options from variables; empty without ``STREAM_APP_CATALOG__METASTORE``.

    Raises:
        UsageError: a reference cannot be resolved.
    """
    options = _section_options(environ, _CATALOG)
    return options if "metastore" in options else {}


def _section_options(environ: Mapping[str, str], section: str) -> dict[str, str]:
    problems: list[str] = []
    options = {}
    for key, setting in _environment_settings(environ, []).items():
        if key.startswith(section) and setting.value:
            value = str(_resolve(key, setting, environ, problems).value)
            options[key.removeprefix(section)] = value
    if problems:
        raise UsageError("; ".join(problems), fix="set the variable or create the file")
    return options


def file_io_variables(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of file systems as variables for another process."""
    return _variables(options, _FILE_SYSTEM)


def catalog_variables(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a catalog as variables for another process."""
    return _variables(options, _CATALOG)


def _variables(options: Mapping[str, str], section: str) -> dict[str, str]:
    return {
        "STREAM_APP_" + (section + key).upper().replace("-", "_").replace(".", "__"): value
        for key, value in options.items()
    }


def secret_texts(settings: Mapping[str, Setting], environ: Mapping[str, str]) -> list[str]:
    """Return the texts to hide: secret settings, references, and variables of AWS and PyIceberg."""
    secrets = [environ[name] for name in _AWS_SECRETS if environ.get(name)]
    for name, value in environ.items():
        if name.startswith(_ICEBERG_CATALOGS) and is_secret(name):
            secrets += [value, value.rpartition(":")[2]]  # a credential is ID:SECRET
    for key, setting in settings.items():
        secrets += setting.secrets
        if is_secret(key) and not REFERENCE.search(str(setting.value)):
            secrets.append(str(setting.value))
        for password in _URL_PASSWORD.findall(str(setting.value)):
            secrets += {password, unquote(password)}
    return secrets


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the texts to hide for a command line without a configuration file."""
    problems: list[str] = []
    settings = {
        key: _resolve(key, setting, environ, problems)
        for key, setting in _environment_settings(environ, problems).items()
    }
    return secret_texts(settings, environ)


def written_key(key: str) -> str:
    """Return a key as users write it."""
    return key.removeprefix("spark.") if key.startswith("spark.spark.") else key


def _file_settings(path: Path, problems: list[str]) -> dict[str, Setting]:
    """Return the settings of a TOML file. A key that it gives twice becomes a problem."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the configuration file cannot be read: {error.strerror}",
            where=str(path),
            fix="give a TOML file with --conf; conf/orders.toml is an example",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the configuration file is not TOML: {error}",
            where=str(path),
            fix="write strings in quotes, and keys that have other characters than letters, "
            "digits, - and _",
        ) from None
    settings: dict[str, Setting] = {}
    for key, value in _flatten(document, ""):
        if key in settings:
            problems.append(f"{path}: {written_key(key)}: is given twice, nested and with dots")
        settings[key] = Setting(value, str(path))
    return settings


def _flatten(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = prefix + name
        if not isinstance(value, dict):
            yield _canonical_key(key), value
        else:
            yield from _flatten(value, key + ".")


def _canonical_key(key: str) -> str:
    """Return the key under ``[spark]``: users may write its prefix ``spark.`` once or twice."""
    return "spark." + key if re.match(r"spark\.(?!spark\.)", key) else key


def _environment_settings(environ: Mapping[str, str], problems: list[str]) -> dict[str, Setting]:
    settings = {}
    for name, value in sorted(environ.items()):
        match = _ENVIRONMENT.fullmatch(name)
        if not match:
            continue
        if match[1] == "SPARK":
            # Spark's settings have capital letters, which a variable's name cannot express.
            problems.append(f"environment: {name}: give Spark's settings in the file or by --set")
            continue
        parts = [match[1], *match[2].split("__")]
        key = ".".join(part.lower().replace("_", "-") for part in parts)
        settings[key] = Setting(value, f"environment {name}", is_text=True)
    return settings


def _override_settings(overrides: Sequence[str], problems: list[str]) -> dict[str, Setting]:
    """Return the settings of each ``--set``. A wrong one becomes a problem."""
    settings = {}
    for override in overrides:
        key, sign, value = override.partition("=")
        key = key.strip()
        if not sign:
            problems.append(
                f"--set {override}: must be KEY=VALUE, e.g. stream.trigger=availableNow"
            )
        elif is_secret(key) and value and not REFERENCE.search(value):
            problems.append(
                f"--set: {key}: is a secret, and command lines are public on this machine: give "
                "${env:NAME} or ${file:PATH}, or set it in the file or the environment"
            )
        else:
            settings[_canonical_key(key)] = Setting(value, "--set", is_text=True)
    return settings


def _resolve(
    key: str, setting: Setting, environ: Mapping[str, str], problems: list[str]
) -> Setting:
    """Return the setting with its references replaced.

    Problems name the reference, never a value.
    """
    if not isinstance(setting.value, str) or not REFERENCE.search(setting.value):
        return setting
    is_hidden = is_secret(key)
    # A store's keys are read from their files again after they have expired.
    is_renewed = is_hidden and key.startswith(_FILE_SYSTEM)
    secrets = []

    def replacement(reference: re.Match[str]) -> str:
        try:
            text = resolve_reference(reference, environ)
        except MissingValueError as error:
            problems.append(f"{setting.given_by}: {written_key(key)}: {error}")
            return ""
        if is_hidden or is_secret(reference[2]):
            secrets.append(text)
        return reference[0] if is_renewed and reference[1] == "file" else text

    value = REFERENCE.sub(replacement, setting.value)
    if (is_hidden or secrets) and not REFERENCE.search(value):
        secrets.append(value)
    return replace(setting, value=value, secrets=tuple(secrets))
