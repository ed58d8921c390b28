"""Options and variables of S3 have a precedence, which decides what a client gets."""

from __future__ import annotations

import pytest

from stream_app.errors import UsageError
from stream_app.fileio.s3.s3_keys import S3Keys
from stream_app.fileio.s3.s3_options import S3Options, s3_options

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_SESSION_TOKEN": "once",
    "AWS_REGION": "eu-central-1",
    "AWS_ENDPOINT_URL": "http://localhost:9000",
}


def test_variables_fill_in() -> None:
    assert s3_options({}, VARIABLES) == S3Options(
        endpoint="http://localhost:9000",
        region="eu-central-1",
        keys=S3Keys(access_key="id", secret_key="hush", session_token="once"),
    )
    assert s3_options({}, {}) == S3Options()


def test_an_option_beats_a_variable_and_keys_belong_together() -> None:
    settings = {"s3.access-key": "mine", "s3.secret-key": "own", "s3.region": "us-west-2"}
    options = s3_options(settings, VARIABLES)
    assert options.keys == S3Keys(access_key="mine", secret_key="own")
    assert (options.region, options.endpoint) == ("us-west-2", "http://localhost:9000")


@pytest.mark.parametrize("prefix", ["s3.", "s3a.", "fs.s3a."])
def test_names_are_those_of_paimon_and_of_hadoop(prefix: str) -> None:
    for access, secret, style in (
        ("access-key", "secret-key", "path.style.access"),
        ("access.key", "secret.key", "path-style-access"),
    ):
        settings = {prefix + access: "a", prefix + secret: "s", prefix + style: "true"}
        assert s3_options({**settings, "other": "x"}, {}) == S3Options(
            keys=S3Keys(access_key="a", secret_key="s"), wants_path_style=True
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"s3.acces-key": "hush"}, "unknown option 's3.acces-key'; did you mean 's3.access-key'"),
        ({"s3.path.style.access": "yes"}, "must be true or false"),
        ({"s3.access-key": "hush"}, "s3.secret-key is missing"),
        ({"s3.secret-key": "hush"}, "s3.access-key is missing"),
    ],
)
def test_errors_about_options_hide_their_values(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        s3_options(options, {})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "wants_path_style", "url", "virtual_host"),
    [
        (None, None, None, True),
        (None, True, None, False),
        (
            "https://s3.eu-central-1.amazonaws.com",
            None,
            "https://b.s3.eu-central-1.amazonaws.com",
            True,
        ),
        ("oss-cn-beijing.aliyuncs.com", None, "https://b.oss-cn-beijing.aliyuncs.com", True),
        ("https://store.local:9000/", True, "https://store.local:9000", False),
        ("http://minio:9000", None, "http://minio:9000", False),
        ("http://127.0.0.1:9000", None, "http://127.0.0.1:9000", False),
    ],
)
def test_the_path_style_decides_where_the_url_has_the_bucket(
    endpoint: str | None, wants_path_style: bool | None, url: str | None, virtual_host: bool
) -> None:
    arguments = {"s3.endpoint": endpoint, "s3.path.style.access": wants_path_style and "true"}
    options = s3_options({key: value for key, value in arguments.items() if value}, {})
    settings = options.settings_of_bucket("b")
    assert settings.get("aws_endpoint_url_s3") == url
    assert settings["virtual_hosted_style_request"] == virtual_host
    assert settings["client_options"] == {"allow_http": (url or "").startswith("http:")}


def test_its_text_holds_no_secret() -> None:
    options = S3Options(keys=S3Keys(access_key="AKIA1", secret_key="hush", session_token="once"))
    assert not any(secret in repr(options) + str(options) for secret in ("AKIA1", "hush", "once"))


@pytest.mark.parametrize("text", ["0", "-1", "three", "1.5"])
def test_attempts_are_counted_from_one(text: str) -> None:
    assert s3_options({}, {}).max_attempts is None
    assert s3_options({}, {"AWS_MAX_ATTEMPTS": "4"}).max_attempts == 4
    with pytest.raises(UsageError, match=f"{text!r} is not a number of attempts"):
        s3_options({}, {"AWS_MAX_ATTEMPTS": text})
