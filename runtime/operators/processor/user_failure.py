"""Says of an exception in a processor where it was raised: whose frame, which handler, key and time.

All of it is found in the traceback when there is one, so that a key costs nothing more while there is none.
"""

from __future__ import annotations

from datetime import datetime, timezone
from types import CodeType, TracebackType
from typing import TYPE_CHECKING, Any

from ....errors import MixedModeError, OperatorEventError, PlanError, StateSchemaError, UserCodeError
from ...jvm.user_frames import UserFrames, is_ours
from .blocks.block_run import BlockRun
from .definition import BLOCK_HANDLER
from .frames.frame_writer import FrameBuffer
from .group_state.function import GroupStateFunction
from .handler_calls import HandlerCalls
from .rows.row_writer import RowBuffer
from .run import ProcessorRun

if TYPE_CHECKING:
    from .definition import ProcessorStage

#: How a call of a function with a GroupState is named.
_GROUP_STATE = "applyInPandasWithState"
#: The methods that call handlers, each with the one that it calls (None: several, told apart by their own names).
_CALLERS: dict[CodeType, str | None] = {
    HandlerCalls.handle_rows.__code__: "handleInputRows",
    HandlerCalls._initial_first.__code__: "handleInitialState",
    HandlerCalls.fire.__code__: "handleExpiredTimer",
    BlockRun._call.__code__: BLOCK_HANDLER,
    ProcessorRun._begin.__code__: None,
    ProcessorRun._end.__code__: None,
    GroupStateFunction._call.__code__: _GROUP_STATE,
}
#: Those of them that do it for a key.
_OF_A_KEY = (
    HandlerCalls.handle_rows.__code__,
    HandlerCalls._initial_first.__code__,
    HandlerCalls.fire.__code__,
    GroupStateFunction._call.__code__,
)
#: What iterates over what a handler yields: a generator runs only there.
_ITERATES = (RowBuffer.extend.__code__, FrameBuffer.extend.__code__, GroupStateFunction._call.__code__)
#: Errors of ours that come of what user code hands in.
_OF_THE_CALL = (StateSchemaError, PlanError, OperatorEventError)
#: Errors of the machine, which may strike while user code asks for its next row.
_OF_THE_MACHINE = (OSError, MemoryError)


def explain_failure(error: BaseException, operator: ProcessorStage, run: ProcessorRun) -> BaseException:
    """The exception for the processor's author; the same one if it does not come of the processor's code."""
    result = _of_no_rows(error)
    if result is not None:
        asked, handler, rows = result
        frames = UserFrames.defining(operator.code_of(run.processor, handler))
        why = TypeError(f"{error}: {handler} returned {rows!r}; yield rows, or return an iterable of them")
        return UserCodeError(frames.description(why, _context(asked, handler, operator, run)))
    caller, start = _entered(error.__traceback__)
    if caller is None or start is None or isinstance(error, GeneratorExit) or _is_engines(error, start):
        return error
    handler = _CALLERS[caller.tb_frame.f_code] or start.tb_frame.f_code.co_name
    context = _context(caller, handler, operator, run)
    frames = UserFrames.since(start)
    if isinstance(error, MixedModeError):
        return type(error)(frames.located(error, context), code=error.code)
    return UserCodeError(frames.description(error, context))


def _context(caller: TracebackType, handler: str, operator: ProcessorStage, run: ProcessorRun) -> str:
    """Which processor, stage and handler; key and time; epoch and shard."""
    context = f"{operator.spoken} of stage {operator.uid!r}, {handler}"
    if caller.tb_frame.f_code in _OF_A_KEY:
        context += f", key {run.calls.key!r}"
    context += _moment(handler, caller, operator, run)
    return f"{context} (epoch {run.epoch_number}, shard {run.shard})"


def _of_no_rows(error: BaseException) -> tuple[TracebackType, str, Any] | None:
    """The call of a handler that has returned nothing to iterate over (a forgotten ``yield``), its name, and what."""
    caller: TracebackType | None = None
    found = error.__traceback__
    while found is not None:
        frame = found.tb_frame
        if frame.f_code in _CALLERS:
            caller = found
        if frame.f_code in _ITERATES and found.tb_next is None and isinstance(error, TypeError) and caller:
            rows = frame.f_locals["rows"]
            handler = _CALLERS[caller.tb_frame.f_code] or caller.tb_frame.f_locals.get("hook", "handleEvent")
            return None if hasattr(rows, "__iter__") else (caller, handler, rows)
        found = found.tb_next
    return None


def _entered(found: TracebackType | None) -> tuple[TracebackType | None, TracebackType | None]:
    """The last frame of ours that calls a handler, and the traceback from the handler's own frame on."""
    caller: TracebackType | None = None
    while found is not None:
        code = found.tb_frame.f_code
        if code in _CALLERS:
            caller = found
        if caller is not None and code in (caller.tb_frame.f_code, *_ITERATES):
            following = found.tb_next
            if following is not None and not is_ours(following.tb_frame.f_code.co_filename):
                return caller, following
        found = found.tb_next
    return None, None


def _is_engines(error: BaseException, start: TracebackType) -> bool:
    """True for what the engine raises while user code calls it, unless it is about the call."""
    last: TracebackType = start
    while last.tb_next is not None:
        last = last.tb_next
    if isinstance(error, MixedModeError) and not isinstance(error, _OF_THE_CALL):
        return True
    return isinstance(error, _OF_THE_MACHINE) and is_ours(last.tb_frame.f_code.co_filename)


def _moment(handler: str, caller: TracebackType, operator: ProcessorStage, run: ProcessorRun) -> str:
    """The event time that a handler was at, for the end of a sentence."""
    expired_in = {"handleExpiredTimer": "ts_ms", _GROUP_STATE: "expired_ms"}.get(handler, "")
    expired_ms = caller.tb_frame.f_locals.get(expired_in)
    if expired_ms is not None:
        clock = "event time" if operator.uses_event_time else "processing time"
        return f", timer of {clock} {_shown(expired_ms)}"
    if handler not in ("handleInputRows", _GROUP_STATE) or operator.event_time is None:
        return ""
    found = run.calls.last_read(operator.event_time)
    return "" if found is None else f", event time {_shown(found)}"


def _shown(moment: Any) -> str:
    try:
        if isinstance(moment, datetime):
            return moment.isoformat()
        return datetime.fromtimestamp(moment / 1000, timezone.utc).isoformat()
    except (OverflowError, ValueError, TypeError, OSError):
        return str(moment)
