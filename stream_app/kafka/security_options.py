"""Translates Java's options of logins and certificates to librdkafka's.

`client_options` and the checks before the job's start call it. It is pure, and does not open the
files that options name. It also parses the login module and its options in ``sasl.jaas.config``.

Source: Kafka `SaslConfigs.java`, `SslConfigs.java`, `security/JaasConfig.java`, the login modules
of `security`; librdkafka `CONFIGURATION.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s=;"']+|=|;)""", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
OptionPairs = Iterator[tuple[str, str]]
_DEFAULT_PROTOCOLS = {"TLSv1.2", "TLSv1.3"}
_OIDC_HANDLER = "OAuthBearerLoginCallbackHandler"
_UNSECURED_LOGIN = "unsecuredLogin"
_LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
_EQUAL_OPTIONS = (
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.key.password",
)
SECURITY_KEYS = frozenset(
    {
        *_EQUAL_OPTIONS,
        *("sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.mechanism"),
        *("security.protocol", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"),
        *("ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location"),
        *("ssl.keystore.password", "ssl.keystore.type"),
        *("ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.type"),
    }
)
"""Options of Java's consumer that this module translates."""


class JaasError(ValueError):
    """The text is not one login module with its options."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A module and its options.

    Attributes:
        name: the class's name without its package, such as ``PlainLoginModule``.
    """

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Return the login module of ``CLASS FLAG KEY="VALUE" …;``.

    Raises:
        JaasError: the text has another form; the error does not show it, because it may hold
            passwords.
    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
        raise JaasError('it must be CLASS required KEY="VALUE" …; and end with a semicolon')
    pairs = tokens[2:-1]
    if len(pairs) % 3 or any(sign != "=" for sign in pairs[1::3]):
        raise JaasError('after CLASS required there must be KEY="VALUE" and nothing else')
    options = {
        _unquote(key): _unquote(value) for key, value in zip(pairs[::3], pairs[2::3], strict=True)
    }
    return LoginModule(tokens[0].rsplit(".", maxsplit=1)[-1], options)


def _tokens(text: str) -> list[str]:
    tokens, position, text = [], 0, text.strip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise JaasError("a quotation mark is not closed")
        tokens.append(token[1])
        position = token.end()
    return tokens


def _unquote(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return _ESCAPE.sub(lambda match: _unescape(match[1]), token[1:-1])


def _unescape(text: str) -> str:
    return chr(int(text, 8)) if text[0] in "01234567" else _CONTROL.get(text, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """The translated options.

    Attributes:
        options: the options of librdkafka.
        problems: options that cannot be translated, and what would work: key → sentence.
    """

    options: Mapping[str, str] = field(repr=False)
    problems: Mapping[str, str]


class _ProblemError(Exception):
    """An option that cannot be translated, with the setting that would work."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key
        self.problem = problem


def security_options(kafka_options: Mapping[str, str]) -> SecurityOptions:
    """Translate the options of logins and certificates; skip others."""
    options: dict[str, str] = {}
    problems: dict[str, str] = {}
    protocol = kafka_options.get("security.protocol", "PLAINTEXT").upper()
    if "security.protocol" in kafka_options:
        options["security.protocol"] = protocol.lower()
    parts = [_unchanged_options(kafka_options)]
    if protocol.endswith("SSL"):
        parts += [
            _truststore_options(kafka_options),
            _keystore_options(kafka_options),
            _host_name_options(kafka_options),
        ]
        if protocol_problem := _protocol_problem(kafka_options):
            problems["ssl.enabled.protocols"] = protocol_problem
    if protocol.startswith("SASL"):
        parts.append(_login_options(kafka_options))
    for part in parts:
        try:
            options.update(part)
        except _ProblemError as problem:
            problems[problem.key] = problem.problem
    return SecurityOptions(options=options, problems=problems)


def _unchanged_options(kafka_options: Mapping[str, str]) -> OptionPairs:
    for key in _EQUAL_OPTIONS:
        if key in kafka_options:
            yield key, kafka_options[key]


def _protocol_problem(kafka_options: Mapping[str, str]) -> str:
    """Return why OpenSSL cannot agree on the enabled protocols; empty if it can."""
    protocols = {
        protocol.strip()
        for protocol in kafka_options.get("ssl.enabled.protocols", "TLSv1.3").split(",")
    }
    if "TLSv1.3" not in protocols or not protocols <= _DEFAULT_PROTOCOLS:
        return "OpenSSL agrees on TLSv1.3 or TLSv1.2: allow these two"
    return ""


def _host_name_options(kafka_options: Mapping[str, str]) -> OptionPairs:
    if "ssl.endpoint.identification.algorithm" in kafka_options:
        algorithm = kafka_options["ssl.endpoint.identification.algorithm"].lower()
        yield "ssl.endpoint.identification.algorithm", algorithm or "none"


def _truststore_options(kafka_options: Mapping[str, str]) -> OptionPairs:
    store_type = kafka_options.get("ssl.truststore.type", "JKS").upper()
    if "ssl.truststore.certificates" in kafka_options:
        yield "ssl.ca.pem", kafka_options["ssl.truststore.certificates"]
    elif "ssl.truststore.location" in kafka_options:
        if store_type != "PEM":
            raise _ProblemError(
                "ssl.truststore.type",
                f"a {store_type} store is for Java alone: write the certificates into a PEM file "
                "(keytool -exportcert -rfc), name it in ssl.truststore.location, and set "
                "ssl.truststore.type = PEM",
            )
        yield "ssl.ca.location", kafka_options["ssl.truststore.location"]


def _keystore_options(kafka_options: Mapping[str, str]) -> OptionPairs:
    """Yield the options for the client's key and its certificates, from text or a file."""
    store_type = kafka_options.get("ssl.keystore.type", "JKS").upper()
    if "ssl.keystore.key" in kafka_options:
        yield "ssl.key.pem", kafka_options["ssl.keystore.key"]
        yield "ssl.certificate.pem", kafka_options.get("ssl.keystore.certificate.chain", "")
    elif "ssl.keystore.location" in kafka_options:
        location = kafka_options["ssl.keystore.location"]
        if store_type == "PEM":
            # One file holds the key and its certificates.
            yield "ssl.key.location", location
            yield "ssl.certificate.location", location
        elif store_type == "PKCS12":
            yield "ssl.keystore.location", location
            yield "ssl.keystore.password", kafka_options.get("ssl.keystore.password", "")
        else:
            raise _ProblemError(
                "ssl.keystore.type",
                f"a {store_type} store is for Java alone: make it a PKCS12 store (keytool "
                "-importkeystore -deststoretype pkcs12) and set ssl.keystore.type = PKCS12",
            )


def _login_options(kafka_options: Mapping[str, str]) -> OptionPairs:
    """Yield the options of SASL for a mechanism that librdkafka has too."""
    mechanism = kafka_options.get("sasl.mechanism", "GSSAPI")
    module_name = _LOGIN_MODULES.get(mechanism)
    if module_name is None:
        mechanisms_text = ", ".join(_LOGIN_MODULES)
        raise _ProblemError(
            "sasl.mechanism", f"{mechanism} is for Java alone; others: {mechanisms_text}"
        )
    handler = kafka_options.get("sasl.login.callback.handler.class", "").rsplit(".", maxsplit=1)[-1]
    if handler and (mechanism, handler) != ("OAUTHBEARER", _OIDC_HANDLER):
        raise _ProblemError("sasl.login.callback.handler.class", f"{handler} is a Java class")
    yield "sasl.mechanism", mechanism
    module = _login_module(kafka_options)
    if module.name != module_name:
        raise _ProblemError(
            "sasl.jaas.config",
            f"{module.name} does not fit {mechanism}, which needs {module_name}",
        )
    if mechanism == "GSSAPI":
        yield from _kerberos_options(module)
    elif mechanism == "OAUTHBEARER":
        yield from _bearer_options(module, kafka_options, has_handler=bool(handler))
    else:
        yield from _password_options(module)


def _login_module(kafka_options: Mapping[str, str]) -> LoginModule:
    if "sasl.jaas.config" not in kafka_options:
        raise _ProblemError(
            "sasl.jaas.config", "is missing: only Java reads a JAAS file of the JVM"
        )
    try:
        return parse_jaas(kafka_options["sasl.jaas.config"])
    except JaasError as error:
        raise _ProblemError("sasl.jaas.config", f"cannot be read: {error}") from None


def _password_options(module: LoginModule) -> OptionPairs:
    if module.options.get("tokenauth", "false").lower() == "true":
        raise _ProblemError("sasl.jaas.config", "tokenauth: delegation tokens are for Java alone")
    for key in ("username", "password"):
        if key not in module.options:
            raise _ProblemError("sasl.jaas.config", f"{module.name} has no {key}")
        yield f"sasl.{key}", module.options[key]


def _kerberos_options(module: LoginModule) -> OptionPairs:
    options = module.options
    if "principal" in options:
        yield "sasl.kerberos.principal", options["principal"]
    if options.get("useKeyTab", "false").lower() == "true" and "keyTab" in options:
        yield "sasl.kerberos.keytab", options["keyTab"]
    else:
        # Another process renews the ticket.
        yield "sasl.kerberos.min.time.before.relogin", "0"


def _bearer_options(
    module: LoginModule, kafka_options: Mapping[str, str], *, has_handler: bool
) -> OptionPairs:
    """Yield the options for OAUTHBEARER: by OIDC with a handler, else an unsecured token."""
    options = module.options
    extensions = [
        f"{key.removeprefix('extension_')}={value}"
        for key, value in options.items()
        if key.startswith("extension_")
    ]
    if not has_handler:
        yield from _unsecured_token_options(options)
        return
    if "sasl.oauthbearer.token.endpoint.url" not in kafka_options:
        raise _ProblemError(
            "sasl.oauthbearer.token.endpoint.url", "is missing: set the URL that issues tokens"
        )
    yield "sasl.oauthbearer.method", "oidc"
    for option, librdkafka_option in (
        ("clientId", "sasl.oauthbearer.client.id"),
        ("clientSecret", "sasl.oauthbearer.client.secret"),
        ("scope", "sasl.oauthbearer.scope"),
    ):
        if option in options:
            yield librdkafka_option, options[option]
    if extensions:
        yield "sasl.oauthbearer.extensions", ",".join(extensions)


def _unsecured_token_options(options: Mapping[str, str]) -> OptionPairs:
    """Translate the options of tokens without a signature, which are for trials."""
    subject = options.get(f"{_UNSECURED_LOGIN}StringClaim_sub")
    if subject is None:
        raise _ProblemError(
            "sasl.login.callback.handler.class",
            "is missing: set org.apache.kafka.common.security.oauthbearer."
            f"{_OIDC_HANDLER}, with clientId and clientSecret in sasl.jaas.config",
        )
    yield "enable.sasl.oauthbearer.unsecure.jwt", "true"
    yield "sasl.oauthbearer.config", f"principal={subject}"
