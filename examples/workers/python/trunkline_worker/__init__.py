"""A worker of a Trunkline server: it takes calls from a stream, runs their handlers, and brings the answers back,
whatever happens to connections and servers. docs/protocol.md, "Being a worker", is what it follows; the numbers in
comments are the steps there."""

from .call import Call, DeferralRefused, Handler, ToolError, parsed
from .worker import KeyRefused, Worker

__all__ = ["Call", "DeferralRefused", "Handler", "KeyRefused", "ToolError", "Worker", "parsed"]
