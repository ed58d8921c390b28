"""A real Kafka broker that authenticates its clients: TLS with certificates, SASL/PLAIN and SCRAM.

Certificates are recreated for each session; passwords are texts that tests can search for.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.jobs.ingest_process import a_free_port

USER = "alice"
PASSWORD = 'known-pass"word\\of alice'
_MODULES = "org.apache.kafka.common.security"
_JAAS_PASSWORD = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(frozen=True)
class SecureKafka:
    """The broker and what its clients need.

    Attributes:
        broker: its plain listener is for making topics.
        ports: of the listeners, by name.
        ca: the authority's certificate, a PEM file.
        client: the client's key and certificate, a PEM file.
    """

    broker: EmbeddedBroker
    ports: dict[str, int]
    ca: Path
    client: Path

    def bootstrap(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def options(self, listener: str, password: str = _JAAS_PASSWORD) -> dict[str, str]:
        """Return options of Kafka's Java client for a listener."""
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if listener == "TLS":
            return {
                "security.protocol": "SSL",
                **trust,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.client),
            }
        module, mechanism, protocol = {
            "PLAIN": ("plain.PlainLoginModule", "PLAIN", "SASL_SSL"),
            "SCRAM256": ("scram.ScramLoginModule", "SCRAM-SHA-256", "SASL_PLAINTEXT"),
            "SCRAM512": ("scram.ScramLoginModule", "SCRAM-SHA-512", "SASL_SSL"),
            "OAUTH": ("oauthbearer.OAuthBearerLoginModule", "OAUTHBEARER", "SASL_PLAINTEXT"),
        }[listener]
        login = f'{_MODULES}.{module} required username="{USER}" password="{password}";'
        if listener == "OAUTH":
            claim = "unsecuredLoginStringClaim_"
            login = (
                f'{_MODULES}.{module} required {claim}sub="{USER}" {claim}password="{password}";'
            )
        options = {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login,
        }
        return options | (trust if protocol == "SASL_SSL" else {})


@pytest.fixture(scope="session")
def secure_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Yield one secure broker for the session."""
    folder = tmp_path_factory.mktemp("secure-kafka")
    ca, server, client = (folder / f"{name}.pem" for name in ("ca", "server", "client"))
    authority = make_authority(ca)
    for path in (server, client):
        make_certificate(path, *authority)
    ports = {name: a_free_port() for name in ("TLS", "PLAIN", "SCRAM256", "SCRAM512", "OAUTH")}
    broker = EmbeddedBroker(folder / "broker", settings=_settings(ca, server), listeners=ports)
    with broker:
        _add_user(broker)
        yield SecureKafka(broker, ports, ca, client)


def _settings(ca: Path, server: Path) -> dict[str, str]:
    escaped_password = _JAAS_PASSWORD.replace("\\", "\\\\")  # a file of Java's properties
    plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{escaped_password}";'
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,"
        "PLAIN:SASL_SSL,SCRAM256:SASL_PLAINTEXT,SCRAM512:SASL_SSL,OAUTH:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        # Users may all that nothing forbids them; the plain listener may everything.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": plain,
        "listener.name.scram256.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.scram256.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.scram512.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram512.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer."
        "OAuthBearerLoginModule required;",
    }


def _add_user(broker: EmbeddedBroker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            # One at a time: a request takes a user once.
            credential = UserScramCredentialUpsertion(USER, mechanism, PASSWORD, 4096)
            assert admin.alter_user_scram_credentials([credential]) == {USER: None}
    finally:
        admin.close()


def make_authority(path: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("the tests' authority")
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def make_certificate(
    path: Path, authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        _builder(_name(path.stem), authority.subject, key)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
