"""What a server sends, message by message: an answer that can't be read fails the request that it is for, at once.

The SDK drops such an answer, and who has asked waits until its time is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from go_ent.sandbox.messages.validation import Problem, problems

if TYPE_CHECKING:  # their import takes a second: it waits until a server is started
    from mcp_types import JSONRPCError, JSONRPCMessage, RequestId

LOOKED_AT = 400  # bytes at either end of a message that can't be read
MAX_NAME = 80

# Where nearly all servers put the id. Deeper inside, an `id` is the result's own.
_ID = rb'"id"\s*:\s*"?([0-9]{1,15})"?\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"[0-9.]{1,5}"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID)
_LAST = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")
_KIND = re.compile(rb'"(method|result|error)"\s*:')


class Awaited:
    """The requests to a server that it has not answered yet.

    An answer that does not say which of them it is for is for one of those that are open then. As soon as there are no
    more of these left than such answers, they have failed.
    """

    def __init__(self) -> None:
        self._open: set[RequestId] = set()
        self._last = -1  # ours are numbers, one after the other
        self._strays = 0
        self._suspects: set[RequestId] = set()  # the requests that the strays may be for
        self._why = ""

    def to_send(self, message: JSONRPCMessage) -> bytes | JSONRPCError:
        """The line that says *message*; for a request that can't be written as one, the error that answers it."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        try:
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        except (ValueError, RecursionError) as error:
            return (
                unreadable(message.id, f"its request can't be sent: {type(error).__name__}")
                if isinstance(message, JSONRPCRequest)
                else b""
            )
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
            self._last = max(self._last, message.id) if isinstance(message.id, int) else self._last
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._close((message.params or {}).get("requestId", ""))
        return line

    def read(self, line: bytes) -> list[JSONRPCMessage]:
        """What a line says; in place of an answer that can't be read, an error. What is no message at all is nothing.

        Servers do print to their stdout.
        """
        from mcp.shared.dispatcher import coerce_request_id
        from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

        try:
            message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError) as error:
            return self._unreadable(line, _words(error))
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return [message]
        request_id = None if message.id is None else coerce_request_id(message.id)
        if request_id is not None and request_id in self._open:
            self._close(request_id)
            return [message, *self._failed()]
        if isinstance(request_id, int) and 0 <= request_id <= self._last:
            return []  # late: nobody waits for it any more
        said = f": {message.error.message}" if isinstance(message, JSONRPCError) else ""
        return self._stray(f"its id, {str(message.id)[:MAX_NAME]}, is that of no request{said}")

    def _unreadable(self, line: bytes, why: str) -> list[JSONRPCMessage]:
        head, tail = line[:LOOKED_AT], line[-LOOKED_AT:]
        kind = _KIND.search(head) or _KIND.search(tail)
        is_answer = b'"jsonrpc"' in line and kind is not None and kind[1] != b"method"
        for match in (_FIRST.match(head), _LAST.search(tail)) if is_answer else ():
            if match is not None and (request_id := int(match[1])) <= self._last:
                was_open = request_id in self._open
                self._close(request_id)
                return [*([unreadable(request_id, why)] if was_open else []), *self._failed()]
        return self._stray(why) if is_answer or line.strip() == b"null" else []

    def _stray(self, why: str) -> list[JSONRPCMessage]:
        if self._open:
            self._strays, self._why = self._strays + 1, why
            self._suspects |= self._open
        return self._failed()

    def _failed(self) -> list[JSONRPCMessage]:
        """Errors for the requests whose answers must have been strays."""
        if len(self._suspects) > self._strays:
            return []
        failed = [unreadable(request_id, self._why) for request_id in sorted(self._suspects, key=str)]
        self._open -= self._suspects
        self._strays, self._suspects = 0, set()
        return [*failed]

    def _close(self, request_id: RequestId) -> None:
        self._open.discard(request_id)
        self._suspects.discard(request_id)


def as_answer(body: bytes, request_id: RequestId) -> bytes:
    """The body of an HTTP answer, if it answers that request; else an error that does."""
    from mcp.shared.dispatcher import coerce_request_id
    from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except (ValueError, RecursionError) as error:
        why = _words(error)
    else:
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            why = "it is a request, not an answer"
        elif message.id is None and isinstance(message, JSONRPCError):
            why = message.error.message
        elif message.id is None or coerce_request_id(message.id) != coerce_request_id(request_id):
            why = f"its id is that of another request ({str(message.id)[:MAX_NAME]})"
        else:
            return body
    return unreadable(request_id, why).model_dump_json(by_alias=True).encode()


def unreadable(request_id: RequestId, why: str) -> JSONRPCError:
    """The error that stands for an answer which can't be used."""
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

    return JSONRPCError(
        jsonrpc="2.0",
        id=request_id,
        error=ErrorData(code=PARSE_ERROR, message=f"the server's answer can't be read: {why}"),
    )


def _words(error: Exception) -> str:
    """What is wrong with an answer, without any of it: it may be long, or hold secrets."""
    if isinstance(error, ValidationError):
        first = problems(error)[0]
        if first.kind == "json_invalid":
            return first.words.removeprefix("Invalid JSON: ")
        return "it does not follow JSON-RPC"
    return type(error).__name__


class Sifted:
    """The messages of a server, without the tools in its listings that don't follow the protocol: one such would cost
    all of them.

    *dropped* is told the name of each, and why; *version* is the protocol's, once it is known.
    """

    def __init__(self, inner: Any, dropped: Callable[[str, str], None], version: Callable[[], str | None]) -> None:
        self._inner, self._dropped, self._version = inner, dropped, version

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        return self._sifted(await self._inner.receive())

    def __aiter__(self) -> Sifted:
        return self

    async def __anext__(self) -> Any:
        return self._sifted(await self._inner.__anext__())

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Sifted:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        leaves: bool | None = await self._inner.__aexit__(kind, error, traceback)
        return leaves

    def _sifted(self, item: Any) -> Any:
        result: Any = getattr(getattr(item, "message", None), "result", None)
        is_listing = isinstance(result, dict) and isinstance(result.get("tools"), list)
        if is_listing and not result.keys() & {"content", "structuredContent"} and self._wrong(result) is not None:
            result["tools"] = [tool for tool in result["tools"] if self._fits({**result, "tools": [tool]}, tool)]
        return item

    def _fits(self, listing: dict[str, Any], tool: Any) -> bool:
        wrong = self._wrong(listing)
        problem = next((one for one in wrong or () if one.place[:1] == ("tools",)), None)
        if (
            problem is None
        ):  # or it is the listing itself that does not follow the protocol, which is told when it is read
            return True
        name = tool.get("name") if isinstance(tool, dict) else None
        where = ".".join(str(part) for part in problem.place[2:]) or "it"
        self._dropped(
            name[:MAX_NAME] if isinstance(name, str) and name else "a tool without a name",
            f"{where[:MAX_NAME]}: {problem.words}",
        )
        return False

    def _wrong(self, listing: dict[str, Any]) -> list[Problem] | None:
        """What of a listing does not follow the protocol."""
        from mcp_types import ListToolsResult
        from mcp_types.methods import validate_server_result

        try:
            validate_server_result("tools/list", self._version() or "2025-11-25", listing)
            ListToolsResult.model_validate(listing, by_name=False)
        except ValidationError as error:
            return problems(error, mapping="object")
        except (ValueError, KeyError, RecursionError):  # a version that is not known, or what is too deep
            return []
        return None
