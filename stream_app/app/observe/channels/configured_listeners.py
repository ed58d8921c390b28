"""Starts the configured listeners of a job, such as OpenTelemetry and a webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from stream_app.app.config.stream_config import ENVIRONMENT_ADDRESS, StreamConfig
from stream_app.app.launch.optional_packages import otlp_module
from stream_app.app.observe.channels.listener import JobListener, Listeners
from stream_app.app.observe.channels.webhook import Receiver, Webhook
from stream_app.clock import Clock
from stream_app.epochs.task_errors import readable_error


@contextmanager
def configured_listeners(
    stream_config: StreamConfig,
    name: str,
    clock: Clock,
    *,
    hide: Callable[[str], str],
    ends_by_itself: bool,
    other_listeners: Iterable[JobListener] = (),
) -> Iterator[Listeners]:
    """Send a job's events within the block, and the end of the block as an event.

    Args:
        name: the job's name in everything that is sent.
        hide: replaces the configuration's secrets in a text.
        ends_by_itself: whether the job ends when its work is done, so that only an error is
            reported.
        other_listeners: further listeners.

    Raises:
        UsageError: a package is missing.
    """
    listeners = list(other_listeners)
    with ExitStack() as stack:
        if stream_config.otlp_endpoint is not None:
            endpoint = (
                None
                if stream_config.otlp_endpoint == ENVIRONMENT_ADDRESS
                else stream_config.otlp_endpoint
            )
            tracer = otlp_module().EpochTracer(endpoint, name, clock)
            stack.callback(tracer.end)
            listeners.append(tracer)
        if stream_config.webhook_url is not None:
            webhook = Webhook(
                Receiver(stream_config.webhook_url, stream_config.webhook_secret),
                name,
                clock,
                hide=hide,
            )
            webhook.begin()
            stack.callback(webhook.end)
            stack.enter_context(_announcing_stop(webhook, ends_by_itself=ends_by_itself))
            listeners.append(webhook)
        yield Listeners(listeners)


@contextmanager
def _announcing_stop(webhook: Webhook, *, ends_by_itself: bool) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        webhook.notify_stop(readable_error(error))
        raise
    if not ends_by_itself:
        webhook.notify_stop(None)
