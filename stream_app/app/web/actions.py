"""Runs the actions of pages on tables. Each request needs a token; without one actions are off.

An action runs in a thread, with the functions of its verb. A compaction is a separate process,
``stream-app compact``. It may run beside the table's job, because a conflicting compaction is
dropped. At most one action runs for a table at a time.
"""

from __future__ import annotations

import hmac
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from stream_app.app.config.secrets import Secrets
from stream_app.app.inspect.table_status import JobTableState
from stream_app.app.ops.tag_request import check_taggable, tag_on_request
from stream_app.app.web.site import Site
from stream_app.errors import StreamAppError, TableNotFoundError, UsageError
from stream_app.table.upkeep.tags import new_tag

_SPARK_EFFECT = (
    "It is a process of its own, with a Spark of its own: it takes memory beside the job."
)
HELD_EXPLANATION = (
    "The job tries a held table again by itself while the cause may pass, and at each start. If "
    "only an operator can fix the cause, fix it, then resume the table: here, or by stream-app "
    "resume."
)
TOKEN_VARIABLE = "STREAM_APP_WEB_TOKEN"
TOKEN_MIN = 16
"""The minimum length, because a shorter token could be guessed."""
ACTION_WAIT_S = 5.0
_RUNS_MAX, _LINES_MAX = 5, 200
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionKind:
    """One action.

    Attributes:
        name: its name in forms and addresses.
        effect: its effect, as text for the confirmation.
        asks_name: whether it needs the name of a tag.
        is_remedy: whether it may solve a table's problem.
        needs_open_table: whether it needs a table that can be opened.
    """

    name: str
    title: str
    effect: str
    asks_name: bool = False
    is_remedy: bool = False
    needs_open_table: bool = True


RESUME = ActionKind(
    name="resume",
    title="Resume",
    effect="The job tries the held table again within seconds, and gives it everything since it "
    "was held back. Fix the cause first: else the same error holds it again.",
    is_remedy=True,
    needs_open_table=False,
)
TAG = ActionKind(
    name="tag",
    title="Tag the latest snapshot",
    effect="A tag keeps the latest snapshot under a name until the tag is deleted.",
    asks_name=True,
)
COMPACT = ActionKind(
    name="compact",
    title="Compact what is due",
    effect=f"Compacts the buckets whose sorted runs have reached the trigger. {_SPARK_EFFECT}",
)
COMPACT_FULL = ActionKind(
    name="compact-full",
    title="Compact each bucket whole",
    effect=f"Rewrites every bucket as one sorted run, whatever its size. {_SPARK_EFFECT}",
)
REPLAY = ActionKind(
    name="replay",
    title="Replay the quarantine",
    effect="Stores the records that wait in quarantine, by the rules of today. Those that are "
    "still bad stay in quarantine.",
)
ACTIONS = {action.name: action for action in (RESUME, TAG, COMPACT, COMPACT_FULL, REPLAY)}


def offered_actions(
    state: JobTableState | None, *, can_open: bool, can_replay: bool
) -> Sequence[ActionKind]:
    """Return the actions that fit a table, first those that may solve its problem.

    Args:
        state: the table's state, or None if unknown.
    """
    actions = [RESUME] if state is JobTableState.HELD else []
    if can_open:
        actions += [TAG, COMPACT, COMPACT_FULL]
    if can_open and can_replay:
        actions.append(REPLAY)
    return actions


class RunState(StrEnum):
    """The state of a run of an action."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


def token_of(environ: Mapping[str, str]) -> str | None:
    """Return the token that actions require, or None if the site has no actions.

    Raises:
        UsageError: the token is too short.
    """
    token = environ.get(TOKEN_VARIABLE) or None
    if token is not None and len(token) < TOKEN_MIN:
        raise UsageError(
            f"{TOKEN_VARIABLE} has {len(token)} characters, and needs {TOKEN_MIN} at least",
            fix="make one: openssl rand -hex 16",
        )
    return token


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a page of this server, or from no page at all.

    Browsers send ``Sec-Fetch-Site``, also through a proxy; old browsers send only ``Origin``.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


@dataclass(slots=True)
class ActionRun:
    """A run of an action, which adds lines of output while it runs.

    Attributes:
        lines: the last lines of the output.
        line_count: the number of all lines.
    """

    action: str
    time_ms: int
    state: RunState = RunState.RUNNING
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_MAX))
    line_count: int = 0
    end_event: threading.Event = field(default_factory=threading.Event)

    def add_line(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line)
        self.line_count += 1

    def end(self, state: RunState) -> None:
        """Set the final state, for which `begin` of `Actions` waits."""
        self.state = state
        self.end_event.set()


@dataclass(slots=True)
class Actions:
    """The actions of a site. Thread-safe.

    Attributes:
        token: the token that requests must have; None refuses all actions.
        command: the command that starts a compaction, before the arguments of ``compact``.
        patience_s: seconds for which `begin` waits for the end.
    """

    site: Site
    token: str | None = None
    command: Sequence[str] = (sys.executable, "-P", "-m", "stream_app", "compact")
    patience_s: float = ACTION_WAIT_S
    _runs: dict[str, deque[ActionRun]] = field(init=False, default_factory=dict)
    _processes: set[subprocess.Popen[str]] = field(init=False, default_factory=set)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    @property
    def are_on(self) -> bool:
        """Whether the server has a token, and so offers actions."""
        return self.token is not None

    @property
    def secrets(self) -> Secrets:
        """The token, which no page may contain."""
        return Secrets([] if self.token is None else [self.token])

    def refusal(self, headers: Mapping[str, str], form: Mapping[str, str]) -> UsageError | None:
        """Return why to refuse a request, or None if it has the token and this site's origin."""
        if self.token is None:
            fix = f"start the server with a token in {TOKEN_VARIABLE}"
            return UsageError("actions are off", fix=fix)
        if not is_same_origin(headers):
            fix = "act on the page of the table itself"
            return UsageError("the request comes from a page of another server", fix=fix)
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        token = credentials.strip() if scheme.lower() == "bearer" else form.get("token", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            _LOG.warning("an action was refused: its token is wrong")
            return UsageError("the token is wrong", fix=f"give the one of {TOKEN_VARIABLE}")
        return None

    def begin(self, name: str, form: Mapping[str, str]) -> ActionRun:
        """Begin an action; a short action has already ended on return.

        Args:
            name: the name of a table. It is empty for records without a table, which can only be
                replayed.
            form: ``action``, and ``tag`` for a tag's name.

        Raises:
            UsageError: the action does not exist, or one already runs for this table.
            TableNotFoundError: the table does not exist.
        """
        action = form.get("action", "")
        runners: Mapping[str, Callable[[], Iterator[str]]] = {
            "compact": lambda: self._compact(name, "--minor"),
            "compact-full": lambda: self._compact(name, "--full"),
            "tag": lambda: self._tag(name, form.get("tag", "").strip()),
            "replay": lambda: self.site.replay(name),
            "resume": lambda: self.site.resume(name),
        }
        if not name:
            runners = {"replay": runners["replay"]}
        if action not in runners:
            raise UsageError(f"there is no action {action!r}", fix=f"choose {', '.join(runners)}")
        if name and ACTIONS[action].needs_open_table:
            self.site.open(name)
        elif name and self.site.status(name) is None:
            raise TableNotFoundError(
                f"there is no table {name}", where=self.site.title, fix="choose one of the list"
            )
        with self._lock:
            runs = self._runs.setdefault(name, deque(maxlen=_RUNS_MAX))
            if runs and runs[0].state is RunState.RUNNING:
                problem = f"{runs[0].action} runs already"
                raise UsageError(problem, where=name, fix="wait until that action has ended")
            run = ActionRun(action, self.site.clock.now_ms())
            runs.appendleft(run)
        thread = threading.Thread(
            target=self._run, args=(name, run, runners[action]), name="action", daemon=True
        )
        thread.start()
        run.end_event.wait(self.patience_s)
        return run

    def runs(self, name: str) -> Sequence[ActionRun]:
        """Return the newest actions of a table, newest first."""
        with self._lock:
            return list(self._runs.get(name, ()))

    def pulse(self, name: str) -> Hashable:
        """Return a value that changes whenever an action has a new line."""
        return tuple((run.state, run.line_count) for run in self.runs(name))

    def close(self, patience_s: float = 10.0) -> None:
        """End the processes of compactions; their uncommitted files become orphans.

        Args:
            patience_s: seconds in which they may end by themselves; then they are killed.
        """
        processes = list(self._processes)
        for process in processes:
            _send(process, signal.SIGTERM)
        deadline_s = time.monotonic() + patience_s
        for process in processes:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                _LOG.warning("a compaction of the page does not end, and is killed")
                _send(process, signal.SIGKILL)

    def _run(self, name: str, run: ActionRun, run_action: Callable[[], Iterator[str]]) -> None:
        _LOG.info("%s: the page begins %s", name or self.site.title, run.action)
        state = RunState.FAILED
        try:
            for line in run_action():
                run.add_line(line)
            state = RunState.DONE
        except (StreamAppError, OSError) as error:
            for line in str(error).splitlines():
                run.add_line(line.strip())
        except Exception as error:
            _LOG.exception("%s: the action %s failed", name, run.action)
            run.add_line(f"{type(error).__name__}: {error}")
        finally:
            run.end(state)
            _LOG.info("%s: %s is %s", name, run.action, state)

    def _tag(self, name: str, tag: str) -> Iterator[str]:
        table = self.site.open(name)
        check_taggable(table)
        yield from tag_on_request(table, new_tag(table, tag))

    def _compact(self, name: str, mode: str) -> Iterator[str]:
        """Run `stream-app compact` as a process, and yield the lines of its output.

        Raises:
            StreamAppError: the process has failed.
        """
        arguments, variables = self.site.compact_command(name)
        environ = {**os.environ, **variables}
        environ.pop(TOKEN_VARIABLE, None)
        process = subprocess.Popen(
            [*self.command, *arguments, mode],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._processes.add(process)
        try:
            assert process.stdout is not None, "it is a pipe"
            for line in process.stdout:
                yield line.rstrip("\n")
            code = process.wait()
        finally:
            self._processes.discard(process)
        if code:
            raise StreamAppError(
                f"stream-app compact ended with {code}",
                where=name,
                fix="correct what the lines above name, and run the action again",
            )


def _send(process: subprocess.Popen[str], signal_number: signal.Signals) -> None:
    """Send a signal to the process and its children, such as Spark's JVM."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal_number)
