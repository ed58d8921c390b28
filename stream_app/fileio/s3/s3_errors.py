"""Explains errors of a store or its client in one line, with the remedy.

The client's error text has the request, the store's answer and the client's internal state. This
module derives the cause from that text.

Source: Amazon S3's list of error codes; `object_store/src/client/retry.rs` for the client's words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_app.version import install_command

_CHARACTERS_MAX = 300
_KEY_PLACES = "(s3.access-key and s3.secret-key, AWS's variables, or AWS_PROFILE)"
_KEYS_FIX = (
    "give valid keys. For a long job put them into files that are rewritten (${file:PATH}) or "
    "into a profile, or use the machine's role"
)
_REGION_FIX = "set s3.region to the region of the bucket (or the variable AWS_REGION)"
_PERMISSIONS_FIX = (
    "give these keys the permissions s3:ListBucket, s3:GetObject, s3:PutObject and "
    "s3:DeleteObject on the bucket and its objects (reading needs the first two)"
)
_UNKNOWN_KEY_FIX = (
    f"check that the keys {_KEY_PLACES} are right, and belong to the store at s3.endpoint; without "
    "s3.endpoint that is Amazon"
)
_EXPIRED_CODES = ("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired")
_UNKNOWN_KEY_CODES = (
    "InvalidToken",
    "InvalidAccessKeyId",
    "InvalidSecurity",
    "InvalidClientTokenId",
)
_INVALID_KEY_CODES = (*_EXPIRED_CODES, *_UNKNOWN_KEY_CODES, "SignatureDoesNotMatch")
_KEY_CODES = (*_INVALID_KEY_CODES, "AccessDenied", "Unauthorized")
_FIXES = {
    **dict.fromkeys(_EXPIRED_CODES, _KEYS_FIX),
    **dict.fromkeys(_UNKNOWN_KEY_CODES, _UNKNOWN_KEY_FIX),
    "SignatureDoesNotMatch": "check that s3.secret-key belongs to s3.access-key, and that "
    "s3.region is the store's",
    **dict.fromkeys(("AccessDenied", "AllAccessDisabled", "AccountProblem"), _PERMISSIONS_FIX),
    **dict.fromkeys(
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
        _REGION_FIX,
    ),
    "NoSuchBucket": "create the bucket, or correct its name in the table's location; check also "
    "that s3.endpoint is its store, and that s3.path.style.access suits the store",
    "InvalidBucketName": "correct the bucket's name in the table's location",
    "RequestTimeTooSkewed": "set this machine's clock",
    "NotImplemented": "the store does not support this request: to write tables, take a store with "
    "conditional PUTs (If-None-Match)",
    **dict.fromkeys(
        ("SlowDown", "ServiceUnavailable", "InternalError", "RequestLimitExceeded"),
        "the store is overloaded or broken: start again later, a job continues where it was",
    ),
}
_ENDPOINT_FIX = (
    "check that s3.endpoint is right, that the store runs, and that this machine can reach it"
)
_CAUSES = (
    (
        r"External AWS credential provider: (?:\w+: )?([^\n]*)",
        "there are no keys for the store: {}",
        f"check that the keys exist {_KEY_PLACES}",
    ),
    (
        r"169\.254\.169\.254|169\.254\.170\.2|security-credentials",
        "there are no keys for the store, and this machine has no role that gives any",
        f"give keys {_KEY_PLACES}; profiles of ~/.aws need botocore: {install_command('aws')}",
    ),
    (
        r"InvalidCertificate\(\s*(\w+)",
        "the store's certificate is not trusted ({})",
        "name the file of the authority that signed it in the variable AWS_CA_BUNDLE; if it is of "
        "another host, see s3.endpoint and s3.path.style.access",
    ),
    (
        r"InvalidContentType|InvalidMessage\(",
        "the endpoint does not speak TLS",
        "write s3.endpoint with http:// if that is intended",
    ),
    (
        r'"dns error"',
        "the endpoint's host name is unknown",
        f"{_ENDPOINT_FIX}; with s3.path.style.access = "
        "true the bucket is in the path and not in the host's name",
    ),
    (r"kind: ConnectionRefused", "the endpoint refuses connections", _ENDPOINT_FIX),
    (
        r"kind: ConnectionReset|IncompleteMessage",
        "the endpoint ends connections",
        f"{_ENDPOINT_FIX}; one that speaks TLS needs https://",
    ),
    (r"kind: Timeout|TimedOut", "the endpoint does not answer in time", _ENDPOINT_FIX),
    (r"redirect without LOCATION", "the bucket is in another region", _REGION_FIX),
    (r"kind: Connect|error sending request", "the endpoint cannot be reached", _ENDPOINT_FIX),
)


@dataclass(frozen=True, slots=True)
class S3Explanation:
    """The explanation of a store's error.

    Attributes:
        problem: the cause in one line.
        fix: the remedy; empty if none is known.
        is_about_keys: whether other keys could help.
        may_be_expired: whether the keys may have expired, so that renewed keys could help.
    """

    problem: str
    fix: str = ""
    is_about_keys: bool = False
    may_be_expired: bool = False


def explain_s3_error(text: str) -> S3Explanation:
    """Explain a client's error.

    Args:
        text: the whole text, with the client's internal state.
    """
    report = text.partition("Debug source:")[0].strip()
    code, message = (
        re.search(rf"<{tag}>(.*?)</{tag}>", report, re.S) for tag in ("Code", "Message")
    )
    if code:
        problem = f"{code[1]}: {message[1]}" if message else code[1]
        return S3Explanation(
            problem[:_CHARACTERS_MAX],
            _FIXES.get(code[1], ""),
            code[1] in _KEY_CODES,
            code[1] in _INVALID_KEY_CODES,
        )
    request = re.search(r"Error performing ([A-Z]+) (https?://[^/\s]+)", report)
    for pattern, template, fix in _CAUSES:
        if match := re.search(pattern, text):
            sentence = template.format(*match.groups())
            return S3Explanation(f"{sentence}: {request[2]}" if request else sentence, fix)
    status = re.search(r"status code: ((\d{3})[\w ]*)", report)
    if request is None or status is None:
        return S3Explanation(report[:_CHARACTERS_MAX])
    # The answer to a HEAD request has no body.
    is_refusal = status[2] in ("400", "401", "403")
    return S3Explanation(
        f"{request[2]} answers {request[1]} with {status[1]}",
        f"check that the keys are right and have not expired; {_PERMISSIONS_FIX}"
        if is_refusal
        else "",
        is_about_keys=is_refusal,
        may_be_expired=status[2] == "400",
    )
