"""What a program in Python gets: grpcio with its defaults, and nothing but generated stubs.

    python harness.py HOST:PORT CASE < JSON

Prints what came of it as JSON. `client.ts` says what the cases are.
"""

import base64
import json
import queue
import sys

import grpc
from google.protobuf import json_format

from trunkline.v1 import call_pb2, model_pb2, task_pb2, worker_pb2
from trunkline.v1.call_pb2_grpc import CallServiceStub
from trunkline.v1.task_pb2_grpc import TaskServiceStub
from trunkline.v1.worker_pb2_grpc import WorkerServiceStub

CALLS = "/trunkline.v1.CallService/"
WORK = "/trunkline.v1.WorkerService/Work"
GROUP_START, GROUP_END = b"\xa3\x06", b"\xa4\x06"  # of field 100


def end(rpc):
    """How an RPC ended; of a call or of an error, which are the same object in grpcio."""
    details = dict(rpc.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return {"code": rpc.code().name, "message": rpc.details(), "details": base64.b64encode(details).decode()}


def end_of(call, *args):
    try:
        return end(call.with_call(*args)[1])
    except grpc.RpcError as error:
        return end(error)


def frames_of(rpc):
    """All frames until the end, whatever that is."""
    frames = []
    try:
        frames.extend(rpc)
    except grpc.RpcError:
        pass
    return frames, end(rpc)


def tokens(channel, told):
    stub = TaskServiceStub(channel)
    return [
        ended
        for token in told
        for ended in (
            end_of(stub.CompleteTask, task_pb2.CompleteTaskRequest(token=token, result_json="1")),
            end_of(stub.FailTask, task_pb2.FailTaskRequest(token=token, failure=model_pb2.Failure(message="no"))),
            end_of(stub.GetTask, task_pb2.GetTaskRequest(token=token)),
        )
    ]


def drive(channel, told):
    opens = [
        call_pb2.NewCall(request=at, run_id=told["runId"], call=call_pb2.CallSpec(tool=told["tool"], input_json=text))
        for at, text in enumerate(told["inputs"])
    ]
    # The iterator's end is the end of our side.
    frames, ended = frames_of(CallServiceStub(channel).Drive(iter([call_pb2.DriveRequest(opens=opens)])))
    return {
        "end": ended,
        "opened": sum(len(frame.opened) for frame in frames),
        "refused": sum(len(frame.refused) for frame in frames),
        "results": [outcome.result_json for frame in frames for outcome in frame.outcomes],
    }


def frame(channel, told):
    """One frame of exactly so many bytes."""
    opens = [call_pb2.NewCall(request=at, run_id=told["runId"]) for at in range(4)]
    for new in opens:
        new.call.tool, new.call.input_json = told["tool"], '"' + "x" * 1_048_574 + '"'
    made = call_pb2.DriveRequest(opens=opens)
    excess = made.ByteSize() - told["bytes"]
    made.opens[3].call.input_json = '"' + "x" * (1_048_574 - excess) + '"'
    assert made.ByteSize() == told["bytes"]
    frames, ended = frames_of(CallServiceStub(channel).Drive(iter([made])))
    return {
        "end": ended,
        "opened": sum(len(each.opened) for each in frames),
        "refused": sum(len(each.refused) for each in frames),
        "results": [len(outcome.result_json) for each in frames for outcome in each.outcomes],
    }


def work(channel, told):
    """Takes one call, answers it, and closes its side in the same breath."""
    said = queue.SimpleQueue()
    said.put(json_format.ParseDict({"hello": told["hello"]}, worker_pb2.WorkRequest()))
    rpc = WorkerServiceStub(channel).Work(iter(said.get, None))
    claim = next(claim for each in rpc for claim in each.claims)
    answer = worker_pb2.Answer(claim_id=claim.claim_id, call_id=claim.call_id, result_json=told["resultJson"])
    said.put(worker_pb2.WorkRequest(accepted=[claim.claim_id], answers=[answer]))
    said.put(None)
    frames, ended = frames_of(rpc)
    return {"end": ended, "acks": [ack.claim_id == claim.claim_id for each in frames for ack in each.acks]}


def pages(channel, told):
    """Waits for a turn and lists a run's calls, page by page."""
    stub = CallServiceStub(channel)
    waited, listed, after, token = [], [], 0, ""
    while True:
        asked = call_pb2.WaitCallsRequest(run_id=told["runId"], turn=told["turn"], after_seq=after)
        page = stub.WaitCalls(asked)
        waited.append([len(outcome.result_json) for outcome in page.outcomes])
        after = page.next_after_seq
        if not after:
            break
    while True:
        asked = call_pb2.ListCallsRequest(run_id=told["runId"], payloads=True, page_token=token)
        page = stub.ListCalls(asked)
        listed.append([len(call.input_json) + len(call.result_json) for call in page.calls])
        token = page.next_page_token
        if not token:
            break
    return {"waited": waited, "listed": listed}


def deep(channel, told):
    """Opens calls, reads their results, and parses them with what Python has for it."""
    stub = CallServiceStub(channel)
    calls = [call_pb2.CallSpec(tool=told["tool"], input_json=text, turn=1) for text in told["inputs"]]
    answer = stub.OpenCalls(call_pb2.OpenCallsRequest(run_id=told["runId"], calls=calls))
    waited = stub.WaitCalls(call_pb2.WaitCallsRequest(run_id=told["runId"], turn=1))
    return {
        "refused": [result.problem.message for result in answer.results if result.HasField("problem")],
        "results": [json.dumps(json.loads(each.result_json)) for each in waited.outcomes],
    }


def groups(channel, told):
    """Sends messages that are nothing but groups of an unknown field, one in the other."""
    message = GROUP_START * told["depth"] + GROUP_END * told["depth"]
    unary = channel.unary_unary(CALLS + "OpenCalls")
    streams = [channel.stream_stream(path) for path in (CALLS + "Drive", WORK)]
    return [end_of(unary, message), *(frames_of(stream(iter([message])))[1] for stream in streams)]


CASES = {case.__name__: case for case in (tokens, drive, frame, work, pages, deep, groups)}

if __name__ == "__main__":
    with grpc.insecure_channel(sys.argv[1]) as opened:
        json.dump(CASES[sys.argv[2]](opened, json.load(sys.stdin)), sys.stdout)
